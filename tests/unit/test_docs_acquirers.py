"""docs/acquirers.md and docs/adapters.md: their programs work, and their tables say what the code does."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import socketserver
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, get_args

import pytest

from docs_programs import DOCS, blocks, section
from free_port import free_port
from paydesk.engine.payments import acquirer
from paydesk.engine.payments.acquirer import Approved, Declined, NotFound, NotSent, Payment, TooLate, Unknown
from paydesk.engine.payments.capabilities import Capabilities, DayClose
from paydesk.engine.payments.lifecycles import ConfirmationStatus
from paydesk_process import environment, start
from seller import Seller
from switch_process import SwitchProcess, payment, switch
from waiting import HANGS_SECONDS

PAGE, ADAPTERS = (DOCS / "acquirers.md").read_text(), (DOCS / "adapters.md").read_text()
PORTS = ("8377", "8378", "9010")
"""Of the page's services."""
STUB = """#!{python} -ISE
import json, os, socket, sys
with socket.create_connection({address}) as service, service.makefile("rw") as stream:
    variables = {{name: value for name, value in os.environ.items() if name.startswith("PAYDESK_")}}
    stream.write(json.dumps([sys.argv[1:], variables]) + "\\n")
    stream.flush()
    code, out, errors = json.loads(stream.readline())
sys.stdout.write(out)
sys.stderr.write(errors)
sys.exit(code)
"""
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
    _, program = blocks(ADAPTERS, "python")
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
    """The acquirers file, and the project with its entry point."""
    (file,), (project,) = blocks(PAGE, "toml"), blocks(ADAPTERS, "toml")
    configured = tomllib.loads(file)
    capabilities = configured["acquirers"]["main"]["capabilities"]
    assert set(capabilities) <= {field.name for field in fields(Capabilities)}
    assert set(capabilities["confirm_before"]) == {field.name for field in fields(DayClose)}
    assert configured["rules"] == [{"seller": 7782587281, "acquirer": "main"}]
    assert tomllib.loads(project)["project"]["entry-points"] == {"paydesk.acquirers": {"acme": "paydesk_acme:create"}}


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
        assert re.search(rf"^\| `{result.__name__}` \|", ADAPTERS, re.MULTILINE), result


def test_the_methods_of_the_page_are_those_of_the_class() -> None:
    """With their parameters, defaults and results; `ledger` is that of the protocol that the kit needs."""
    source = f"from __future__ import annotations\n{blocks(ADAPTERS, 'python')[0]}"
    namespace: dict[str, Any] = {"Capabilities": Capabilities}
    exec(compile(source, "interface", "exec"), namespace)  # noqa: S102  # the page's program

    def methods(*kinds: type) -> dict[str, str]:
        found = {name: value for kind in kinds for name, value in vars(kind).items() if name[0] != "_"}
        return {name: str(inspect.signature(value)) for name, value in found.items() if inspect.isfunction(value)}

    assert methods(namespace["Acquirer"]) == methods(acquirer.Acquirer, acquirer.HasLedger)


def test_the_fields_of_the_page_are_those_of_the_classes() -> None:
    """In their order; what is in parentheses says what they have."""
    table = section(ADAPTERS, "## The interface")
    rows = re.findall(r"^\| `(Payment|Card|Echo|LedgerEntry)` \| (.*) \|$", table, re.MULTILINE)
    named = {name: re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", cell)) for name, cell in rows}
    assert named == {name: [field.name for field in fields(getattr(acquirer, name))] for name in named}
    assert len(named) == 4


HELD = ("--needs-confirmation",)
STATES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "unknown": ((), ()),
    "blocked": (("--reversal-blocks",), ("reverse",)),
    "declined": ((), ("authorize",)),
    "provisional": (HELD, ("authorize",)),
    "final": ((), ("authorize",)),
    "refunded, a part or all": ((), ("authorize", "refund")),
    "reversed by a request": ((), ("authorize", "reverse")),
    "confirmed by the host at its deadline": (
        ("--needs-confirmation", "--confirms-after", "60"),
        ("authorize", "wait"),
    ),
    "undone by the host at its deadline": ((*HELD, "--undoes-after", "60"), ("authorize", "wait")),
}
"""How the example switch gets a payment of each row: its options, and what happens to the payment."""


def test_the_example_switch_answers_by_the_table(tmp_path: Path) -> None:
    """Each operation, for a payment in each state."""
    table = section(PAGE, "### What your switch answers")
    rows = re.findall(r"^\| ([a-z][^|]*) \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$", table, re.MULTILINE)
    expected = {state: tuple(map(_first, answers)) for state, *answers in rows}
    final = expected["final"]
    expected = {
        state: tuple(final[at] if one == "as final" else one for at, one in enumerate(answers))
        for state, answers in expected.items()
    }
    answered: dict[str, tuple[str, ...]] = {}
    for number, (state, (options, steps)) in enumerate(STATES.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        with switch(folder, *options) as played:
            answered[state] = tuple(
                _answer(played, operation, steps, at, 9_990_002 if state == "declined" else 2490)
                for at, operation in enumerate(("inquire", "confirm", "reverse", "refund"))
            )
    assert answered == expected


def _first(cell: str) -> str:
    """Return the answer in a cell, without what it is on a condition."""
    return cell.partition(";")[0].replace("`", "")


def _answer(played: SwitchProcess, operation: str, steps: tuple[str, ...], number: int, amount_minor: int) -> str:
    """Return the answer to an operation on a new payment to which the steps have happened."""
    body = payment(number, amount_minor)
    further: dict[str, dict[str, Any]] = {"refund": {"refund_minor": 490}, "confirm": {"reference_id": "1"}}
    for step in steps:
        if step == "wait":
            played.move_clock(61)
        else:
            answer = played.post(step, {**body, **further.get(step, {})}).body
            if step == "authorize" and "reference_id" in answer:
                further["confirm"]["reference_id"] = answer["reference_id"]
    answer = played.post(operation, {**body, **further.get(operation, {})}, "X" * 26).body
    return ", ".join([answer["outcome"], *(name for name in ("final", "needs_confirmation") if answer.get(name))])


@pytest.mark.long("a terminal that is paired asks every 3 s")
def test_the_commands_of_the_page_make_a_live_payment(tmp_path: Path) -> None:
    """In an empty folder, but for the ports: a sale at a switch, confirmed and refunded."""
    assert "](../examples/switch/first_payment.sh)" in PAGE
    program = (DOCS.parent / "examples" / "switch" / "first_payment.sh").read_text()
    addresses = {port: str(free_port()) for port in PORTS}
    for port, chosen in addresses.items():
        program = program.replace(f"127.0.0.1:{port}", f"127.0.0.1:{chosen}")
    with _paydesk(tmp_path) as programs:
        variables = {
            "PATH": os.pathsep.join([programs, str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PAYDESK": str(DOCS.parent),
            "PAYDESK_LISTEN": f"127.0.0.1:{addresses['8377']}",
            "PAYDESK_OPERATOR_LISTEN": f"127.0.0.1:{addresses['8378']}",
            "BUYER_SECONDS": "0",
        }
        ended = _follow(tmp_path, program, variables)
    assert re.search(r"^status +refunded$", ended, re.MULTILINE), ended


def _follow(folder: Path, program: str, variables: dict[str, str]) -> str:
    """Run the program, with a seller who opens the address that it prints; return its output."""
    work, errors = folder / "empty", folder / "errors"
    work.mkdir()
    with (
        errors.open("w") as written,
        subprocess.Popen(
            ["sh", "-eu", "-c", program],
            cwd=work,
            env=environment(NO_PROXY="127.0.0.1", **variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
            start_new_session=True,
        ) as running,
    ):
        assert running.stdin is not None
        assert running.stdout is not None
        printed = ""
        try:
            for line in running.stdout:
                printed += line
                if "/authorization?" in line:
                    (password,) = re.findall(r"^password +(\S+)$", printed, re.MULTILINE)
                    running.stdin.write(Seller("ana@shop.example", password).agree(line.strip()) + "\n")
                    running.stdin.flush()
            assert running.wait(HANGS_SECONDS) == 0, printed + errors.read_text()
        finally:
            os.killpg(running.pid, signal.SIGKILL)
    return printed


@contextmanager
def _paydesk(folder: Path) -> Iterator[str]:
    """Yield a folder whose `paydesk` is forked from a process that has imported it: a new one takes a second."""
    numbers, running = count(), set[int]()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            arguments, variables = json.loads(self.rfile.readline())
            number = next(numbers)
            out, errors = folder / f"{number}.out", folder / f"{number}.err"
            process = start(arguments, variables, folder / "empty", out, errors)
            running.add(process.pid)
            code = process.wait(5 * HANGS_SECONDS)  # The service runs to the end of the test.
            running.discard(process.pid)
            self.wfile.write(json.dumps([code, out.read_text(), errors.read_text()]).encode() + b"\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        program = folder / "bin" / "paydesk"
        program.parent.mkdir()
        program.write_text(STUB.format(python=sys.executable, address=server.server_address))
        program.chmod(0o700)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield str(program.parent)
        finally:
            for pid in tuple(running):
                os.kill(pid, signal.SIGTERM)
            server.shutdown()
            thread.join()
