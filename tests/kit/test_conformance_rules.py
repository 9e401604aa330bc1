"""The rules of the conformance kit: each finds its violation in a log, and none where there is none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from paydesk_dev.conformance.terminals.exchanges import Exchange, Log
from paydesk_dev.conformance.terminals.rules import RULES, judge
from paydesk_dev.conformance.terminals.runner import CASES

LEASE = "01J67CQQH5904WDBVZEM4JMEP3"
FIRST, SECOND = "0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51", "1b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a52"
RESULT, OTHER_RESULT = "2b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a53", "3b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a54"


class Story:
    """A log that is written call by call, one second apart."""

    def __init__(self) -> None:
        self.log = Log()

    def call(self, method: str, path: str, body: dict[str, Any], status: int = 200, **answer: Any) -> Exchange:
        """Add an exchange that was answered 0.1 s after it began."""
        exchange = self.log.begin(method, path, body if method == "GET" else {}, None if method == "GET" else body)
        exchange.started = float(exchange.number)
        exchange.answered, exchange.status, exchange.served = exchange.started + 0.1, status, status
        exchange.answer = answer
        return exchange

    def hello(self, boot_id: str = FIRST, **more: Any) -> Exchange:
        """Say hello."""
        return self.call("POST", "/device/v1/hello", {"boot_id": boot_id, **more})

    def poll(self, boot_id: str = FIRST, status: int = 204) -> Exchange:
        """Poll."""
        return self.call("GET", "/device/v1/next", {"boot_id": boot_id, "wait": "25"}, status)

    def progress(self, seq: int, step: str, boot_id: str = FIRST, status: int = 200, **answer: Any) -> Exchange:
        """Report a step."""
        body = {"boot_id": boot_id, "seq": seq, "step": step}
        return self.call("POST", f"/device/v1/leases/{LEASE}/progress", body, status, **answer)

    def charge(self) -> Exchange:
        """Charge the order's payment."""
        return self.call("POST", "/virtual/v1/acquirer/payments", {"payment_id": f"PAY{LEASE}", "amount": "12.34"})

    def result(self, result_id: str = RESULT, outcome: str = "approved", **more: Any) -> Exchange:
        """Report a result."""
        body = {"boot_id": FIRST, "outcome": outcome, **more}
        return self.call("PUT", f"/device/v1/leases/{LEASE}/results/{result_id}", body)

    def violated(self) -> set[str]:
        """Return the names of the rules that are violated."""
        return {outcome.name for outcome in judge(self.log) if outcome.status == "failed"}


@pytest.fixture
def story() -> Story:
    """A payment as it must be, with a repeated result and a restart."""
    story = Story()
    story.hello()
    story.poll(status=200)
    story.call("POST", f"/device/v1/leases/{LEASE}/ack", {"boot_id": FIRST})
    story.progress(1, "card_requested")
    story.progress(1, "card_requested")
    story.progress(2, "authorizing", go=True)
    story.charge()
    story.result(paid_amount="12.34", reference_id="4235647728025682")
    story.hello(SECOND)
    story.result(paid_amount="12.34", reference_id="4235647728025682")
    story.poll(SECOND)
    return story


def test_a_payment_as_it_must_be_violates_nothing(story: Story) -> None:
    """References are identifiers, and a result may come from an earlier session."""
    assert story.violated() == set()


def test_one_session(story: Story) -> None:
    """A call before the hello of its boot id, or after that of a newer one."""
    story.poll(FIRST)
    assert story.violated() == {"one-session"}
    other = Story()
    other.poll()
    assert other.violated() == {"one-session"}


def test_rising_seq(story: Story) -> None:
    """Another step with the same seq, or with an earlier one."""
    story.progress(1, "card_presented", SECOND)
    story.progress(1, "pin_requested", SECOND)
    assert story.violated() == {"rising-seq"}


@pytest.mark.parametrize(
    ("result_id", "outcome"), [(RESULT, "declined"), (OTHER_RESULT, "approved"), (OTHER_RESULT, "declined")]
)
def test_one_result(story: Story, result_id: str, outcome: str) -> None:
    """Another content under the id, or a second result."""
    story.result(result_id, outcome)
    assert story.violated() == {"one-result"}


def test_a_result_may_follow_an_unknown_one() -> None:
    """The terminal learns the outcome later."""
    story = Story()
    story.hello()
    story.progress(1, "authorizing", go=True)
    story.result(outcome="unknown")
    story.result(OTHER_RESULT)
    assert story.violated() == set()


@pytest.mark.parametrize("answer", [{"status": 409, "error": "order_canceled"}, {"go": False}])
def test_permit_first(answer: dict[str, Any]) -> None:
    """A charge, or an approval, after anything but `go: true`."""
    charged, approved = Story(), Story()
    for story in (charged, approved):
        story.hello()
        story.progress(1, "authorizing", **answer)
    charged.charge()
    approved.result()
    assert charged.violated() == approved.violated() == {"permit-first"}


def test_well_formed(story: Story) -> None:
    """A request that the service refuses for its form; a pending pairing is no fault."""
    story.call("POST", "/device/v1/pairings/token", {"device_code": "x"}, 400, error="authorization_pending")
    assert story.violated() == set()
    story.progress(9, "dancing", SECOND, 400, error="property_value")
    assert story.violated() == {"well-formed"}


def test_request_rate(story: Story) -> None:
    """A request that the service refuses for the rate."""
    story.poll(SECOND, 429)
    assert story.violated() == {"request-rate"}


@pytest.mark.parametrize(
    "more",
    [
        {"card": {"last_digits": "4235647728025682"}},
        {"note": ";4235647728025682=25121010000000000000?"},
        {"number": 4235647728025682},
        {"pin_block": "x"},
    ],
)
def test_no_card_data(story: Story, more: dict[str, Any]) -> None:
    """A card number in any field but the reference, track data, or a field that is made for such."""
    story.hello(SECOND, **more)
    assert story.violated() == {"no-card-data"}


def test_every_rule_has_a_violation_here() -> None:
    """A new rule needs a test."""
    tested = {name.removeprefix("test_").replace("_", "-") for name in globals()}
    assert set(RULES) <= tested


def test_the_page_has_every_case_and_rule() -> None:
    """The cases by section and the rules, in their order."""
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
    for section in {one.section for one in CASES.values()}:
        names = ", ".join(f"`{one.name}`" for one in CASES.values() if one.section == section)
        assert f"\n| {section} | {names} |\n" in page
    rules = page.partition("keeps these rules: ")[2].partition(".\n")[0]
    assert re.findall(r"`([\w-]+)`", rules) == list(RULES)


def test_a_uuid_is_no_card_number() -> None:
    """Whatever its digits are."""
    story = Story()
    story.hello("42356477-2802-4682-8000-000000000000")
    assert story.violated() == set()


def test_a_service_that_charges_needs_no_other_permit() -> None:
    """A call of `authorize` takes the permit itself."""
    story = Story()
    story.hello()
    story.call("POST", f"/device/v1/leases/{LEASE}/authorize", {"boot_id": FIRST}, outcome="approved")
    story.result()
    assert story.violated() == set()
