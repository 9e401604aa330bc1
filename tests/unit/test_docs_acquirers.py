"""docs/acquirers.md: its adapter works, its configuration can be read, and its tables are complete."""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import MISSING, dataclass, fields
from types import ModuleType, SimpleNamespace
from typing import Any, get_args

import pytest

from docs_programs import DOCS, blocks
from paydesk.engine.payments import acquirer
from paydesk.engine.payments.acquirer import Approved, Declined, NotFound, NotSent, Payment, TooLate, Unknown
from paydesk.engine.payments.capabilities import Capabilities, DayClose
from paydesk.engine.payments.lifecycles import ConfirmationStatus

PAGE = (DOCS / "acquirers.md").read_text()
PAYMENT = Payment(7782587281, "PAX_A920__1", "PAY01J67CQQH5904WDBVZEM4JMEP3", 2490, "BRL")


@dataclass
class Host:
    """The library of a host, which answers as a test says."""

    answer: Any = None

    async def send(self, request: str, **fields: Any) -> Any:
        """Answer with the code, and repeat what the host knows."""
        if isinstance(self.answer, Exception):
            raise self.answer
        del request
        return SimpleNamespace(
            code=self.answer,
            reference="115019989861",
            amount=fields["amount"],
            currency=fields["currency"],
            key=fields["key"],
            authorization_code="831000",
        )

    async def close(self) -> None:
        """Close nothing."""


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The host's library under the name that the page imports."""

    class Error(Exception):
        pass

    class NotConnected(Error):
        pass

    module = ModuleType("acme")
    module.__dict__.update(Error=Error, NotConnected=NotConnected, Client=lambda _host: Host())
    monkeypatch.setitem(sys.modules, "acme", module)
    return module


async def test_the_adapter_of_the_page_returns_what_its_table_says(acme: ModuleType) -> None:
    """Created as Paydesk does, it maps codes, errors and refusals to results."""
    (program,) = blocks(PAGE, "python")
    namespace: dict[str, Any] = {}
    exec(compile(program, "acme adapter", "exec"), namespace)  # noqa: S102  # the page's program
    adapter: Any = namespace["create"]("acme", {"host": "host.example"}, None)
    assert acquirer.Acquirer in type(adapter).__mro__
    assert adapter.capabilities.fault(unknown_after_seconds=40) is None
    key = PAYMENT.payment_id

    async def results(answer: object) -> list[Any]:
        adapter.client.answer = answer
        return [
            await adapter.authorize(PAYMENT, None, blob=b"card"),
            await adapter.inquire(PAYMENT),
            await adapter.refund(PAYMENT, key=key, amount_minor=2490),
            await adapter.reverse(PAYMENT, key=key, amount_minor=2490),
        ]

    approved = Approved("115019989861", 2490, "831000", currency="BRL", key=key)
    other = Declined("rejected_other_reason")
    assert await results("00") == [approved] * 4
    assert await results("51") == [Declined("insufficient_amount")] * 4
    assert await results("25") == [other, NotFound(), other, NotFound()]
    assert await results("12") == [other, other, other, TooLate("the day is closed")]
    assert {type(result) for result in await results("68")} == {Unknown}
    assert {type(result) for result in await results(acme.Error("reset"))} == {Unknown}
    assert {type(result) for result in await results(acme.NotConnected("refused"))} == {NotSent}
    await adapter.close()


def test_the_configuration_of_the_page_is_toml_with_known_capabilities() -> None:
    """Of the acquirers file, and of the entry point."""
    file, entry_point = blocks(PAGE, "toml")
    configured = tomllib.loads(file)
    capabilities = configured["acquirers"]["main"]["capabilities"]
    assert set(capabilities) <= {field.name for field in fields(Capabilities)}
    assert set(capabilities["confirm_before"]) == {field.name for field in fields(DayClose)}
    assert configured["rules"] == [{"seller": 7782587281, "acquirer": "main"}]
    assert tomllib.loads(entry_point)["project"]["entry-points"] == {
        "paydesk.acquirers": {"acme": "paydesk_acme:create"}
    }


def test_every_capability_has_its_row_and_default() -> None:
    """In the order of the class; a default that is a word or a number is that of the code."""
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", PAGE.partition("## Capabilities")[2], re.MULTILINE))
    names = [field.name for field in fields(Capabilities)]
    assert [name for name in rows if name in names] == names
    for field in fields(Capabilities):
        assert field.default is not MISSING
        if isinstance(field.default, bool | int | str):
            assert rows[field.name].strip("`").lower() == str(field.default).lower(), field.name


def test_every_status_of_a_confirmation_and_every_result_is_explained() -> None:
    """Each has a row that begins with it."""
    for status in get_args(ConfirmationStatus):
        assert re.search(rf"^\| `{status}` \|", PAGE, re.MULTILINE), status
    for result in get_args(acquirer.Result):
        assert re.search(rf"^\| `{result.__name__}` \|", PAGE, re.MULTILINE), result
