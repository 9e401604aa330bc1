"""Compares the clients' records with the final database; every violation is a sentence.

Each check is a generator of its own over records and facts, so that a test can plant what it must find.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from faults.final_state import Facts, OrderFact
from faults.records import LIVE, Arrival, Records, ResultRecord
from paydesk.engine.orders.status import CREATED, State, legal

VIOLATIONS_MAX = 100
ENDED_OPENLY = ("exhausted", "superseded", "withdrawn")
DEFECTS = ("unhandled_exception", "undeclared_error", "worker_failed", "delivery_attempt_crashed")
CHAINED = ("The above exception was", "During handling of the above")

Check = Callable[[Records, Facts], Iterator[str]]


def violations(records: Records, facts: Facts) -> list[str]:
    """Everything that was promised and does not hold, at most `VIOLATIONS_MAX` of each check."""
    found: list[str] = []
    for check in CHECKS:
        said = [f"{check.__name__}: {sentence}" for sentence in check(records, facts)]
        found += said[:VIOLATIONS_MAX]
        if len(said) > VIOLATIONS_MAX:
            found.append(f"{check.__name__}: and {len(said) - VIOLATIONS_MAX} more")
    return found


def acknowledged_orders(records: Records, facts: Facts) -> Iterator[str]:
    """Promise 1: an order that any client was ever shown exists."""
    for order_id in records.orders:
        if order_id not in facts.orders:
            yield f"{order_id} was answered and does not exist"


def keys(records: Records, facts: Facts) -> Iterator[str]:
    """Promise 2: one key, one answer, which is the stored one."""
    for record in records.keys:
        if len(record.answers) > 1:
            yield f"{record.operation} under key {record.key} was answered in {len(record.answers)} ways"
        object_id = "" if record.operation == "create" else record.order_id
        stored = facts.keys.get((f"{record.operation}_order", object_id, record.key))
        if record.answers and stored not in record.answers:
            yield f"{record.operation} under key {record.key} was answered otherwise than it is stored"
        if record.ending == "refused" and stored is not None:
            yield f"{record.operation} under key {record.key} was refused, and its key is bound"


def effects(records: Records, facts: Facts) -> Iterator[str]:
    """Promise 2: one key, one effect; a refused one has none, and no order comes from nowhere."""
    by_reference: dict[str, list[str]] = defaultdict(list)
    for order in facts.orders.values():
        by_reference[order.reference].append(order.order_id)
    for record in records.keys:
        if record.operation != "create":
            continue
        made = by_reference.pop(record.reference, [])
        if len(made) > 1:
            yield f"key {record.key} made {len(made)} orders: {', '.join(made)}"
        if record.ending == "created" and record.order_id not in made:
            yield f"key {record.key} was answered {record.order_id} and made {made}"
        if record.ending == "refused" and made:
            yield f"key {record.key} was refused and made {made}"
    for reference, made in by_reference.items():
        yield f"no client requested {', '.join(made)} (reference {reference})"


def histories(records: Records, facts: Facts) -> Iterator[str]:
    """Promise 3: what was ever shown of an order is a step of its history, and the history is legal."""
    for order in facts.orders.values():
        yield from _broken_path(order)
    for order_id, record in records.orders.items():
        fact = facts.orders.get(order_id)
        steps = {event.version: event.shown for event in fact.events} if fact is not None else {}
        for version, shown in record.seen.items():
            if fact is not None and shown != {steps.get(version)}:
                yield f"{order_id} was shown as {sorted(shown)} at version {version}, which was {steps.get(version)}"


def _broken_path(order: OrderFact) -> Iterator[str]:
    before: State | None = None
    for number, event in enumerate(order.events, start=1):
        state = State(*event.shown)  # type: ignore[arg-type]
        if event.version != number:
            yield f"{order.order_id} has version {event.version} where {number} belongs"
        if state != CREATED if before is None else not legal(before, state):
            yield f"{order.order_id} went from {before} to {state}"
        before = state
    if not order.events or order.events[-1].shown != order.shown or order.events[-1].version != order.version:
        yield f"{order.order_id} is {order.shown} at version {order.version}, its history ends otherwise"


def one_live_order(records: Records, facts: Facts) -> Iterator[str]:
    """Promise 4: no two orders of a terminal were live at one moment, as far as clients saw, and none are now."""
    by_terminal: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for record in records.orders.values():
        by_terminal[record.terminal_id].append((record.live_from, record.live_until, record.order_id))
    for terminal_id, spans in by_terminal.items():
        spans.sort()
        latest, holder = 0.0, ""
        for begins, ends, order_id in spans:
            if begins < latest:
                yield f"{order_id} and {holder} were live on {terminal_id} at once"
            if ends > latest:
                latest, holder = ends, order_id
    live = Counter(order.terminal_id for order in facts.orders.values() if order.shown[0] in LIVE)
    yield from (f"{terminal_id} has {count} live orders" for terminal_id, count in live.items() if count > 1)


def cancels(records: Records, facts: Facts) -> Iterator[str]:
    """Promise 5: what was answered as canceled is, and was never granted; what was granted is never canceled."""
    for order_id, record in records.orders.items():
        fact = facts.orders.get(order_id)
        if fact is None:
            continue
        if record.canceled_answer and fact.shown[0] != "canceled":
            yield f"{order_id} was answered as canceled and is {fact.shown[0]}"
        if record.canceled_answer and (fact.granted or record.granted):
            yield f"{order_id} was answered as canceled, and its terminal was let charge"
        if record.granted and not fact.granted:
            yield f"{order_id}: its terminal was permitted to charge, but no permit is stored"
        if record.granted and fact.shown[0] == "canceled":
            yield f"{order_id}: its terminal was permitted to charge, but it is {fact.shown}"
        if record.acknowledged and all(event.shown[0] != "at_terminal" for event in fact.events):
            yield f"{order_id} was acknowledged by its terminal and never was there"


def outcomes(records: Records, facts: Facts) -> Iterator[str]:
    """Promises 1 and 5: a result that was taken is what the order came to; one that was not is recorded."""
    for result in records.results:
        fact, kept = facts.orders.get(result.order_id), facts.results.get((result.order_id, result.result_id))
        if kept is None:
            yield f"result {result.result_id} of {result.order_id} was answered {result.status} and is not recorded"
        elif fact is not None and result.status == 200 and result.content["outcome"] != "unknown":
            yield from _wrong_end(result, fact)
        elif fact is not None and result.content["outcome"] == "approved" and result.status != 200:
            is_payment = fact.payment_reference == result.content["reference_id"]
            if not (is_payment or kept.reversed_ or kept.inquired):
                yield f"the approval {result.result_id} of {result.order_id} is neither its payment nor reversed"
        if result.status != 200 and not result.recorded:
            yield f"result {result.result_id} of {result.order_id} was refused with {result.status}, not recorded"


def _wrong_end(result: ResultRecord, fact: OrderFact) -> Iterator[str]:
    content, outcome = result.content, result.content["outcome"]
    expected = {"approved": "processed", "declined": "failed", "canceled": "canceled"}[outcome]
    stands = "processed" if fact.shown[0] == "refunded" else fact.shown[0]
    if stands != expected or result.order_status != expected:
        yield f"{result.order_id} took {outcome}, was answered as {result.order_status} and is {fact.shown[0]}"
    elif outcome == "approved" and fact.payment_reference != content["reference_id"]:
        yield f"{result.order_id} took payment {content['reference_id']} and has {fact.payment_reference}"
    elif outcome != "approved" and fact.shown[2] != content["status_detail"]:
        yield f"{result.order_id} took {content['status_detail']} and is {fact.shown[2]}"


def refunds(records: Records, facts: Facts) -> Iterator[str]:
    """Promises 1 and 6: a refund that was answered is there, never more goes back than was paid, the books agree."""
    for refund in records.refunds:
        kept = facts.refunds.get(refund.refund_id)
        if kept is None or (kept.order_id, kept.amount) != (refund.order_id, refund.amount):
            yield f"refund {refund.refund_id} of {refund.amount} was answered, and it is {kept}"
        elif refund.status == "processed" != kept.status:
            yield f"refund {refund.refund_id} was answered as processed and is {kept.status}"
    back: Counter[str] = Counter()
    for refund_id, kept in facts.refunds.items():
        back[kept.order_id] += kept.moved_minor or 0
        if back[kept.order_id] > kept.paid_minor:
            yield f"of {kept.order_id} {kept.paid_minor} was paid and the acquirer gave back {back[kept.order_id]}"
        if kept.status == "processed" and kept.moved_minor != kept.amount_minor:
            yield f"refund {refund_id} of {kept.amount_minor} is processed; the acquirer gave back {kept.moved_minor}"
        if kept.status == "failed" and kept.moved_minor:
            yield f"refund {refund_id} failed, and the acquirer gave back {kept.moved_minor}"


def charges(records: Records, facts: Facts) -> Iterator[str]:
    """Promise 5: what the acquirer approved is the order's one payment or was reversed, and nothing else is paid."""
    for charge in records.charges:
        booked = facts.book.get(charge.order_id)
        if booked is None or (charge.outcome == "approved" and booked.reference_id != charge.reference_id):
            yield f"{charge.order_id} was {charge.outcome} as {charge.reference_id}, and the book has {booked}"
        elif charge.outcome != booked.outcome and not (charge.outcome == "declined" and booked.reversed_):
            # What was reversed did not happen: a terminal that asks only then hears that it was declined.
            yield f"{charge.order_id} was {charge.outcome}, and is {booked.outcome} in the book"
    for order_id, fact in facts.orders.items():
        paid, booked = fact.shown[0] in ("processed", "refunded"), facts.book.get(order_id)
        if fact.live or booked is None:
            if paid and not fact.live:
                yield f"{order_id} is {fact.shown[0]}, and no card was charged"
            continue
        stands = booked.outcome == "approved" and not booked.reversed_
        if paid and not (stands and booked.charged and fact.payment_reference == booked.reference_id):
            yield f"{order_id} is {fact.shown[0]} as {fact.payment_reference}, and the book has {booked}"
        if stands and not paid:
            yield f"{order_id} is {fact.shown[0]}, and {booked.amount_minor} stay charged as {booked.reference_id}"


def kinds(records: Records, facts: Facts) -> Iterator[str]:
    """Promise 10: sellers are isolated, and live from test: orders, their webhooks, and the simulator ledger."""
    for order in facts.orders.values():
        if order.live != (order.terminal_id in records.live):
            yield f"{order.order_id} is {_kind(order.live)}, its terminal {order.terminal_id} is not"
    for order_id, booked in facts.book.items():
        if booked.live or (order_id in facts.orders and facts.orders[order_id].live):
            yield f"{order_id} is live, and the simulated acquirer knows of it"
    notified = {(one.subscription_id, one.order_id) for one in records.arrivals}
    notified |= {(subscription_id, order_id) for order_id, _, subscription_id in facts.deliveries}
    for subscription_id, order_id in sorted(notified):
        fact = facts.orders.get(order_id)
        whose = (records.sellers[fact.terminal_id], fact.live) if fact is not None else None
        if whose is not None and records.audiences.get(subscription_id) != whose:
            yield f"{order_id} of {whose} was delivered to subscription {subscription_id} of another owner"


def _kind(live: bool) -> str:  # noqa: FBT001 - private
    return "live" if live else "test"


def tokens(records: Records, facts: Facts) -> Iterator[str]:
    """Promise 8: one successor for each refresh token, no client locked out, and no token without a request."""
    for number, family in enumerate(records.families, start=1):
        for step, (_, answers) in enumerate(family.steps, start=1):
            if len(answers) > 1:
                yield f"application {number}, refresh {step}: one token had {len(answers)} successors"
        if family.refused:
            yield f"application {number} was locked out at refresh {len(family.steps) + 1}: {family.refused[0]}"
        if family.works_at_the_end is not True:
            yield f"application {number}: its newest tokens do not work"
        stands = facts.families.get(family.newest_refresh_token)
        if stands is None:
            yield f"application {number}: its newest refresh token is not kept"
        elif (stands.generation, stands.newest) != (len(family.steps) + 1, len(family.steps) + 1):
            yield (
                f"application {number} refreshed {len(family.steps)} times; "
                f"its token is of generation {stands.generation}, the newest {stands.newest}"
            )


def deliveries(records: Records, facts: Facts) -> Iterator[str]:
    """Promise 7: every event arrived at each subscription or ended openly, and nothing untrue arrived."""
    arrived: dict[tuple[str, int, str], list[Arrival]] = defaultdict(list)
    for arrival in records.arrivals:
        arrived[arrival.order_id, arrival.version, arrival.subscription_id].append(arrival)
    announced = {(order_id, version) for order_id, version, _ in facts.deliveries}
    for order in facts.orders.values():
        for event in order.events:
            if (order.order_id, event.version) not in announced:
                yield f"version {event.version} of {order.order_id} has no delivery"
    for place, status in facts.deliveries.items():
        name = f"version {place[1]} of {place[0]}"
        if status == "delivered" and not any(one.taken for one in arrived.get(place, ())):
            yield f"{name} counts as delivered to {place[2]}, which never took it"
        elif status != "delivered" and status not in ENDED_OPENLY:
            yield f"{name}: its delivery to {place[2]} is {status}"
    yield from _untrue(arrived, facts)


def _untrue(arrived: dict[tuple[str, int, str], list[Arrival]], facts: Facts) -> Iterator[str]:
    for (order_id, version, subscription_id), came in arrived.items():
        name = f"version {version} of {order_id}"
        if (order_id, version, subscription_id) not in facts.deliveries:
            yield f"{name} was sent to {subscription_id}, which it was not for"
        fact = facts.orders.get(order_id)
        event = next((one for one in fact.events if one.version == version), None) if fact is not None else None
        if event is None:
            yield f"{name} was sent and never committed"
            continue
        if any(one.body != event.body.encode() or one.event_id != event.event_id for one in came):
            yield f"{name} was sent otherwise than it is kept"
        if len({one.request_id for one in came}) > 1:
            yield f"{name} was sent under {len({one.request_id for one in came})} request ids"
        if not all(one.genuine for one in came):
            yield f"{name} was sent with a signature that is not the subscription's"


def delivery_order(records: Records, facts: Facts) -> Iterator[str]:
    """Promise 7: a version first arrives after the one before it was taken, or given up."""
    taken: set[tuple[str, int, str]] = set()
    seen: set[tuple[str, int, str]] = set()
    for one in records.arrivals:
        place = (one.order_id, one.version, one.subscription_id)
        before = (one.order_id, one.version - 1, one.subscription_id)
        first = place not in seen
        seen.add(place)
        if first and one.version > 1 and before not in taken and facts.deliveries.get(before) not in ENDED_OPENLY:
            yield f"version {one.version} of {one.order_id} arrived before version {one.version - 1} was taken"
        if one.taken:
            taken.add(place)


def defects(name: str, log: str) -> list[str]:
    """What a node's log says of defects. A node that finds no database when it starts may say so and end."""
    found: list[str] = []
    in_traceback, last_words = False, ""
    for line in log.splitlines():
        if line.startswith("Traceback"):
            in_traceback = True
        elif line.startswith(CHAINED):
            last_words = ""
        elif in_traceback and line and not line[0].isspace():
            found += _unexpected(name, last_words)
            in_traceback, last_words = False, line
        elif _event(line) in DEFECTS:
            found.append(f"{name} logged: {line[:300]}")
    return found + _unexpected(name, last_words)


def _event(line: str) -> str:
    """Return the event of a line of the log, or nothing for one that is no JSON."""
    try:
        return str(json.loads(line).get("event"))
    except (ValueError, AttributeError):
        return ""


def _unexpected(name: str, last_words: str) -> list[str]:
    return [f"{name} ended with {last_words[:300]}"] if last_words and "Unavailable" not in last_words else []


CHECKS: tuple[Check, ...] = (
    acknowledged_orders,
    keys,
    effects,
    histories,
    one_live_order,
    cancels,
    outcomes,
    refunds,
    charges,
    kinds,
    tokens,
    deliveries,
    delivery_order,
)
