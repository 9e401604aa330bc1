"""Cases of sales, and of keys: one key has one effect, and the acquirer's answer is what counts."""

from __future__ import annotations

import re
from dataclasses import replace

from paydesk.core.money import CURRENCIES
from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.acquirer import Approved, Declined
from paydesk_dev.conformance.acquirers.kit import Kit, must_be
from paydesk_dev.conformance.case import Failed, NotApplicable, NotShown, documented

CLOCK_SECONDS_MAX = 300
CURRENCIES_MAX = 7
REFERENCE = re.compile("[A-Za-z0-9._-]{1,64}")


@documented
async def echo(kit: Kit) -> None:
    """Answers an echo, and its clock differs from this machine's by 300 s at most.

    Check the address, the secret and its id, and that both machines have their time from the network.
    """
    answer = await kit.adapter.echo()
    if answer.fault is not None:
        raise Failed(f"The echo failed: {answer.fault}.")
    if answer.difference_seconds is not None and abs(answer.difference_seconds) > CLOCK_SECONDS_MAX:
        raise Failed(f"Its clock differs by {answer.difference_seconds:.0f} s.")


@documented
async def approve(kit: Kit) -> None:
    """Approves a sale; where the approval is provisional, the terminal's result confirms it.

    Check that an approval has the host's own amount, currency and reference (1 to 64 of `[A-Za-z0-9._-]`), and that
    `needs_confirmation` is declared if an approval says so.
    """
    order = await kit.sale()
    answer = must_be(kit.answers("authorize", order)[-1], Approved, "The sale")
    if not REFERENCE.fullmatch(answer.reference_id):
        raise Failed(f"Its reference {answer.reference_id!r} is not 1 to 64 of [A-Za-z0-9._-].")
    if answer.needs_confirmation is not kit.capabilities.needs_confirmation:
        raise Failed("Whether its approvals are provisional is not what `needs_confirmation` declares.")


@documented
async def decline(kit: Kit) -> None:
    """Declines a card with a detail that Paydesk has.

    Check the table that maps the host's codes to details, and the amount of `--declined-amount`.
    """
    order = await kit.begin(kit.declined_minor)
    await kit.authorize(order)
    answer = kit.answers("authorize", order)[-1]
    if isinstance(answer, Approved):
        raise NotShown(f"A payment of {order.amount} is approved. Name one that is declined by --declined-amount.")
    detail = must_be(answer, Declined, "A payment that the host declines").detail
    await kit.expect(order, "failed")
    if detail not in FAILED_DETAILS:
        raise Failed(f"Its detail is `{detail}`, not one of {', '.join(FAILED_DETAILS)}.")


@documented
async def same_key_twice(kit: Kit) -> None:
    """Charges a payment once that is requested twice under one key, and gives the same answer.

    Check that the key reaches the host, and that the host stores the answer of a key before it answers.
    """
    kit.need_idempotent("authorize")
    payment = kit.payment()
    first, second = await kit.charged(payment), await kit.charged(payment)
    await kit.reversed(payment, first)
    if first.reference_id != second.reference_id:
        raise Failed(f"The second answer has the reference {second.reference_id}, the first {first.reference_id}.")


@documented
async def other_body_under_the_key(kit: Kit) -> None:
    """Charges nothing under a key that another amount was charged under.

    Check that the host compares the body with that of the key's first request.
    """
    kit.need_idempotent("authorize")
    payment = kit.payment()
    first = await kit.charged(payment)
    answer = await kit.charge(replace(payment, amount_minor=payment.amount_minor + 100))
    await kit.reversed(payment, first)
    if isinstance(answer, Approved) and answer.amount_minor != payment.amount_minor:
        raise Failed(f"It approved {answer.amount_minor} in minor units under the key of {payment.amount_minor}.")


@documented
async def answer_is_compared(kit: Kit) -> None:
    """Answers an inquiry with the host's amount and currency, whatever the request says.

    Check that `amount_minor`, `currency` and `key` of a result are read from the host's answer: Paydesk compares them,
    and a copy of the request hides that the host charged something else.
    """
    kit.need("can_inquire")
    payment = kit.payment()
    first = await kit.charged(payment)
    other = next(code for code in CURRENCIES if code != payment.currency)
    asked = replace(payment, amount_minor=payment.amount_minor + 100), replace(payment, currency=other)
    answers = [await kit.adapter.inquire(one) for one in asked]
    await kit.reversed(payment, first)
    for answer in (one for one in answers if isinstance(one, Approved)):
        if answer.amount_minor != payment.amount_minor or answer.currency not in ("", payment.currency):
            raise Failed(
                f"It says that {answer.amount_minor} {answer.currency} were approved, and it were"
                f" {payment.amount_minor} {payment.currency}: it repeats the request."
            )


@documented
async def currencies(kit: Kit) -> None:
    """Approves a payment in each currency that it declares.

    Check `currencies`, and the decimals of amounts: they are in minor units.
    """
    declared = sorted(kit.capabilities.currencies & CURRENCIES.keys())
    if not declared:
        raise NotApplicable("The adapter declares no currencies, so any is accepted.")
    for code in declared[:CURRENCIES_MAX]:
        payment = kit.payment(currency=code)
        approved = await kit.charged(payment)
        await kit.reversed(payment, approved, f"The reversal in {code}")
