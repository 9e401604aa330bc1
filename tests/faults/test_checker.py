"""Each check of the checker finds the violation that it is there for, planted in a run that was sound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from faults import checker
from faults.final_state import BookFact, Event, Facts, FamilyFact, OrderFact, RefundFact, ResultFact
from faults.records import Arrival, ChargeRecord, FamilyRecord, KeyRecord, Records, RefundRecord, ResultRecord

PAID = "ORD01J67CQQH5904WDBVZEM4JMEP3"
CANCELED = "ORD01J67CQQH5904WDBVZEM4JMEP4"
SUBSCRIPTION = "s1"
CREATED = ("created", "created", "created")
AT_TERMINAL = ("at_terminal", "at_terminal", "at_terminal")
PROCESSED = ("processed", "processed", "accredited")
BY_API = ("canceled", "canceled", "canceled_by_api")
ANSWER = (201, b"{}")

Scene = tuple[Records, Facts]


def sound() -> Scene:
    """A run of two orders of one terminal, one paid and one canceled, and of one application, without a fault."""
    records, facts = Records(), Facts()
    records.sellers, records.audiences = {"T1": 1}, {SUBSCRIPTION: (1, False)}
    for order_id, key, steps, begins in (
        (PAID, "k1", (CREATED, AT_TERMINAL, PROCESSED), 1.0),
        (CANCELED, "k2", (CREATED, BY_API), 3.0),
    ):
        order = records.order(order_id, "T1")
        order.live_from, order.live_until = begins, begins + 1
        order.seen.update({version: {shown} for version, shown in enumerate(steps, start=1)})
        records.keys.append(KeyRecord(key, "create", f"r-{key}", order_id, {ANSWER}, "created"))
        facts.keys["create_order", "", key] = ANSWER
        events = tuple(
            Event(version, shown, f"{key}-{version}", "body") for version, shown in enumerate(steps, start=1)
        )
        facts.orders[order_id] = OrderFact(
            order_id, "T1", f"r-{key}", steps[-1], len(steps), granted=False, payment_reference="", events=events
        )
        for event in events:
            facts.deliveries[order_id, event.version, SUBSCRIPTION] = "delivered"
            records.arrivals.append(_arrival(order_id, event))
    _pay(records, facts)
    records.orders[CANCELED].canceled_answer = True
    records.keys.append(KeyRecord("k3", "cancel", "", CANCELED, {(200, b"{}")}, "created"))
    facts.keys["cancel_order", CANCELED, "k3"] = (200, b"{}")
    records.refunds.append(RefundRecord(PAID, "REF1", "10.00", "processed"))
    facts.refunds["REF1"] = RefundFact(PAID, "10.00", 1000, "processed", 2490, 1000)
    records.families.append(FamilyRecord("TG-0", [("TG-0", {("A-1", "TG-1")})], works_at_the_end=True))
    facts.families["TG-1"] = FamilyFact(2, 2, "")
    return records, facts


def _arrival(order_id: str, event: Event) -> Arrival:
    return Arrival(
        SUBSCRIPTION,
        order_id,
        event.version,
        event.event_id,
        f"{order_id}-{event.version}",
        b"body",
        genuine=True,
        taken=True,
    )


def _pay(records: Records, facts: Facts) -> None:
    records.orders[PAID].granted = records.orders[PAID].acknowledged = True
    facts.orders[PAID] = replace(facts.orders[PAID], granted=True, payment_reference="115")
    content = {"outcome": "approved", "reference_id": "115"}
    records.results.append(ResultRecord(PAID, "R1", content, 200, recorded=False, order_status="processed"))
    facts.results[PAID, "R1"] = ResultFact("approved", "taken", reversed_=False, inquired=False)
    records.charges.append(ChargeRecord(PAID, "approved", "115"))
    facts.book[PAID] = BookFact("approved", "115", False, True, 2490, 1000, False)


def _lose_order(records: Records, facts: Facts) -> None:
    del records, facts.orders[PAID]


def _answer_otherwise(records: Records, facts: Facts) -> None:
    del facts
    records.keys[0].answers.add((201, b"another"))


def _forget_the_answer(records: Records, facts: Facts) -> None:
    del records, facts.keys["create_order", "", "k1"]


def _bind_a_refused_key(records: Records, facts: Facts) -> None:
    records.keys.append(KeyRecord("k9", "create", "r-k9"))
    facts.keys["create_order", "", "k9"] = ANSWER


def _make_two(records: Records, facts: Facts) -> None:
    del records
    facts.orders[CANCELED] = replace(facts.orders[CANCELED], reference="r-k1")


def _make_one_for_a_refused_key(records: Records, facts: Facts) -> None:
    del facts
    records.keys[1].ending = "refused"


def _make_one_unasked(records: Records, facts: Facts) -> None:
    del facts
    records.keys.pop(1)


def _show_what_never_was(records: Records, facts: Facts) -> None:
    del facts
    records.orders[PAID].seen[2].add(PROCESSED)


def _leave_a_gap(records: Records, facts: Facts) -> None:
    del records
    events = facts.orders[PAID].events
    facts.orders[PAID] = replace(facts.orders[PAID], events=(events[0], replace(events[1], version=3), events[2]))


def _leave_a_final_status(records: Records, facts: Facts) -> None:
    records.orders[CANCELED].seen.clear()
    events = facts.orders[CANCELED].events
    after = Event(3, PROCESSED, "k2-3", "body")
    facts.orders[CANCELED] = replace(facts.orders[CANCELED], events=(*events, after), shown=PROCESSED, version=3)


def _overlap(records: Records, facts: Facts) -> None:
    del facts
    records.orders[CANCELED].live_from = 1.5


def _leave_two_live(records: Records, facts: Facts) -> None:
    del records
    for order_id in (PAID, CANCELED):
        facts.orders[order_id] = replace(facts.orders[order_id], shown=CREATED)


def _uncancel(records: Records, facts: Facts) -> None:
    del records
    facts.orders[CANCELED] = replace(facts.orders[CANCELED], shown=PROCESSED)


def _grant_what_is_canceled(records: Records, facts: Facts) -> None:
    del records
    facts.orders[CANCELED] = replace(facts.orders[CANCELED], granted=True)


def _lose_the_grant(records: Records, facts: Facts) -> None:
    del records
    facts.orders[PAID] = replace(facts.orders[PAID], granted=False)


def _cancel_what_is_granted(records: Records, facts: Facts) -> None:
    del records
    facts.orders[PAID] = replace(facts.orders[PAID], shown=BY_API)


def _lose_the_acknowledgement(records: Records, facts: Facts) -> None:
    del facts
    records.orders[CANCELED].acknowledged = True


def _lose_the_result(records: Records, facts: Facts) -> None:
    del records
    facts.results.clear()


def _keep_another_payment(records: Records, facts: Facts) -> None:
    del records
    facts.orders[PAID] = replace(facts.orders[PAID], payment_reference="116")


def _show_approved_as_failed(records: Records, facts: Facts) -> None:
    del records
    facts.orders[PAID] = replace(facts.orders[PAID], shown=("failed", "failed", "high_risk"))


def _keep_a_late_approval(records: Records, facts: Facts) -> None:
    content = {"outcome": "approved", "reference_id": "117"}
    records.results.append(ResultRecord(PAID, "R2", content, 409, recorded=True, order_status=""))
    facts.results[PAID, "R2"] = ResultFact("approved", "finished", reversed_=False, inquired=False)


def _refuse_without_recording(records: Records, facts: Facts) -> None:
    del facts
    records.results[0] = replace(records.results[0], status=404)


def _give_two_successors(records: Records, facts: Facts) -> None:
    facts.families["TG-2"] = facts.families["TG-1"]
    records.families[0].steps[0][1].add(("A-2", "TG-2"))


def _lock_out(records: Records, facts: Facts) -> None:
    del facts
    records.families[0].refused.append("400 invalid_grant")


def _break_the_newest(records: Records, facts: Facts) -> None:
    del facts
    records.families[0].works_at_the_end = False


def _refresh_behind_its_back(records: Records, facts: Facts) -> None:
    del records
    facts.families["TG-1"] = FamilyFact(2, 3, "")


def _deliver_nothing(records: Records, facts: Facts) -> None:
    del facts
    records.arrivals[:] = [one for one in records.arrivals if (one.order_id, one.version) != (PAID, 3)]


def _announce_nothing(records: Records, facts: Facts) -> None:
    records.arrivals[:] = [one for one in records.arrivals if one.order_id != CANCELED]
    for version in (1, 2):
        del facts.deliveries[CANCELED, version, SUBSCRIPTION]


def _leave_undelivered(records: Records, facts: Facts) -> None:
    place = (CANCELED, 2, SUBSCRIPTION)
    facts.deliveries[place] = "pending"
    records.arrivals[:] = [one for one in records.arrivals if (one.order_id, one.version) != place[:2]]


def _deliver_an_unknown_event(records: Records, facts: Facts) -> None:
    facts.deliveries[PAID, 4, SUBSCRIPTION] = "delivered"
    records.arrivals.append(replace(records.arrivals[2], version=4))


def _change_the_body(records: Records, facts: Facts) -> None:
    del facts
    records.arrivals.append(replace(records.arrivals[0], body=b"other"))


def _forge(records: Records, facts: Facts) -> None:
    del facts
    records.arrivals.append(replace(records.arrivals[0], genuine=False))


def _change_the_request_id(records: Records, facts: Facts) -> None:
    del facts
    records.arrivals.append(replace(records.arrivals[0], request_id="other"))


def _notify_an_unknown_subscription(records: Records, facts: Facts) -> None:
    del facts
    records.arrivals.append(replace(records.arrivals[0], subscription_id="s2"))


def _overtake(records: Records, facts: Facts) -> None:
    del facts
    records.arrivals[0], records.arrivals[1] = records.arrivals[1], records.arrivals[0]


def _lose_a_refund(_: Records, facts: Facts) -> None:
    del facts.refunds["REF1"]


def _undo_a_refund(_: Records, facts: Facts) -> None:
    facts.refunds["REF1"] = replace(facts.refunds["REF1"], status="processing")


def _refund_too_much(_: Records, facts: Facts) -> None:
    for number in (2, 3):
        facts.refunds[f"REF{number}"] = replace(facts.refunds["REF1"], moved_minor=1000)


def _move_nothing(_: Records, facts: Facts) -> None:
    facts.refunds["REF1"] = replace(facts.refunds["REF1"], moved_minor=None)


def _move_for_a_failed_refund(_: Records, facts: Facts) -> None:
    facts.refunds["REF2"] = replace(facts.refunds["REF1"], status="failed")


def _forget_a_charge(_: Records, facts: Facts) -> None:
    del facts.book[PAID]


def _keep_another_charge(_: Records, facts: Facts) -> None:
    facts.book[PAID] = replace(facts.book[PAID], reference_id="117")


def _decline_what_is_booked(records: Records, facts: Facts) -> None:
    del facts
    records.charges[0] = ChargeRecord(PAID, "declined", "")


def _approve_what_is_forbidden(records: Records, facts: Facts) -> None:
    facts.book[CANCELED] = replace(facts.book[PAID], reference_id="118", outcome="declined", reversed_=True)
    records.charges.append(ChargeRecord(CANCELED, "approved", "118"))


def _reverse_a_payment(_: Records, facts: Facts) -> None:
    facts.book[PAID] = replace(facts.book[PAID], reversed_=True)


def _charge_what_is_canceled(_: Records, facts: Facts) -> None:
    facts.book[CANCELED] = replace(facts.book[PAID], reference_id="118")


def _pay_without_a_card(_: Records, facts: Facts) -> None:
    facts.book[PAID] = replace(facts.book[PAID], charged=False)


def _make_it_live(_: Records, facts: Facts) -> None:
    facts.orders[PAID] = replace(facts.orders[PAID], live=True)


def _play_with_real_money(records: Records, facts: Facts) -> None:
    records.live.add("T1")
    facts.book[CANCELED] = replace(facts.book[PAID], outcome="declined", live=True)


def _notify_another_seller(records: Records, facts: Facts) -> None:
    del facts
    records.audiences[SUBSCRIPTION] = (2, False)


PLANTED: dict[str, tuple[Callable[[Records, Facts], None], str]] = {
    "an order is lost": (_lose_order, "acknowledged_orders"),
    "one key has two answers": (_answer_otherwise, "keys"),
    "an answer is not stored": (_forget_the_answer, "keys"),
    "a refused key is bound": (_bind_a_refused_key, "keys"),
    "one key has two effects": (_make_two, "effects"),
    "a refused key has an effect": (_make_one_for_a_refused_key, "effects"),
    "an order comes from nowhere": (_make_one_unasked, "effects"),
    "an answer shows what is no step": (_show_what_never_was, "histories"),
    "a version is missing": (_leave_a_gap, "histories"),
    "a final status is left": (_leave_a_final_status, "histories"),
    "two orders were live at once": (_overlap, "one_live_order"),
    "two orders are live": (_leave_two_live, "one_live_order"),
    "a canceled order is paid": (_uncancel, "cancels"),
    "a canceled order is granted": (_grant_what_is_canceled, "cancels"),
    "a grant is lost": (_lose_the_grant, "cancels"),
    "a granted order is canceled": (_cancel_what_is_granted, "cancels"),
    "an acknowledgement is lost": (_lose_the_acknowledgement, "cancels"),
    "a result is lost": (_lose_the_result, "outcomes"),
    "another payment is kept": (_keep_another_payment, "outcomes"),
    "an approved order is failed": (_show_approved_as_failed, "outcomes"),
    "a late approval is not reversed": (_keep_a_late_approval, "outcomes"),
    "a refund is lost": (_lose_a_refund, "refunds"),
    "a refund is undone": (_undo_a_refund, "refunds"),
    "more is refunded than was paid": (_refund_too_much, "refunds"),
    "the acquirer gave nothing back": (_move_nothing, "refunds"),
    "a failed refund was refunded": (_move_for_a_failed_refund, "refunds"),
    "a charge is not in the book": (_forget_a_charge, "charges"),
    "the book has another number": (_keep_another_charge, "charges"),
    "what was declined is approved in the book": (_decline_what_is_booked, "charges"),
    "what was approved is declined in the book": (_approve_what_is_forbidden, "charges"),
    "what is paid was reversed": (_reverse_a_payment, "charges"),
    "what is canceled stays charged": (_charge_what_is_canceled, "charges"),
    "what is paid was never charged": (_pay_without_a_card, "charges"),
    "a live order stands at a test terminal": (_make_it_live, "kinds"),
    "live money is in the simulator's book": (_play_with_real_money, "kinds"),
    "another seller is notified": (_notify_another_seller, "kinds"),
    "a result is refused and not recorded": (_refuse_without_recording, "outcomes"),
    "a token has two successors": (_give_two_successors, "tokens"),
    "an application is locked out": (_lock_out, "tokens"),
    "the newest tokens do not work": (_break_the_newest, "tokens"),
    "a family goes on by itself": (_refresh_behind_its_back, "tokens"),
    "what counts as delivered never arrived": (_deliver_nothing, "deliveries"),
    "an event has no delivery": (_announce_nothing, "deliveries"),
    "an unknown event is delivered": (_deliver_an_unknown_event, "deliveries"),
    "a notification changes": (_change_the_body, "deliveries"),
    "a signature is wrong": (_forge, "deliveries"),
    "a repeat has another request id": (_change_the_request_id, "deliveries"),
    "an unknown subscription is notified": (_notify_an_unknown_subscription, "deliveries"),
    "a notification is still under way": (_leave_undelivered, "deliveries"),
    "a version overtakes another": (_overtake, "delivery_order"),
}


def test_a_sound_run_has_no_violations() -> None:
    """What was promised and held is not complained of."""
    assert checker.violations(*sound()) == []


def test_a_reversed_charge_may_be_reported_as_declined() -> None:
    """The terminal that asks only then hears so, and both are right."""
    records, facts = sound()
    facts.book[CANCELED] = replace(facts.book[PAID], reference_id="118", reversed_=True)
    records.charges.append(ChargeRecord(CANCELED, "declined", ""))
    assert checker.violations(records, facts) == []


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_a_planted_violation_is_found(plant: tuple[Callable[[Records, Facts], None], str]) -> None:
    """The check that is there for it says so."""
    records, facts = sound()
    planted, check = plant
    planted(records, facts)
    assert any(sentence.startswith(f"{check}: ") for sentence in checker.violations(records, facts))


def test_every_check_has_a_violation_planted() -> None:
    """Every check has a case that it finds."""
    assert {check for _, check in PLANTED.values()} == {check.__name__ for check in checker.CHECKS}


def test_a_version_that_decreases_is_detected() -> None:
    """Who was shown version 2 and is then shown version 1 complains without looking at the database."""
    records, _ = sound()
    payment = {"status_detail": "created"}
    document = {"id": PAID, "status": "created", "status_detail": "created", "version": 1}
    document |= {"config": {"point": {"terminal_id": "T1"}}, "transactions": {"payments": [payment]}}
    records.saw(document, asked_at=1.0, floor=2)
    assert records.violations == [f"{PAID} went back: version 2 was seen, then 1"]


@pytest.mark.parametrize(
    ("log", "complaints"),
    [
        ('{"event": "webhook_sent", "level": "info"}', 0),
        ('{"operation": "get_order", "event": "unhandled_exception", "level": "error"}', 1),
        ('{"error": "x", "event": "undeclared_error"}', 1),
        ('{"timestamp":"2026-01-31T14:26:42.109Z","level":"error","event":"unhandled_exception"}', 1),
        ("Traceback (most recent call last):\n  File …\nValueError: no\n", 1),
        ("Traceback (most recent call last):\n  File …\npaydesk.platform.storage.database.Unavailable: away\n", 0),
        (
            "Traceback (most recent call last):\n  File …\nOSError: no\n\nThe above exception was the direct …\n\n"
            "Traceback (most recent call last):\n  File …\npaydesk.platform.storage.database.Unavailable: away\n",
            0,
        ),
    ],
)
def test_a_defect_in_a_nodes_log_is_found(log: str, complaints: int) -> None:
    """Defects and tracebacks count; a database that is away when a node starts does not."""
    assert len(checker.defects("node-1", log)) == complaints
