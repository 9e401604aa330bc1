"""The kinds of what needs a person, each with what is wrong since when, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from paydesk.core.text.sentences import First, Lines, When
from paydesk.operators.attention.store import DELIVERIES_MAX
from paydesk.platform.operator_events import AttentionKind as Kind

KINDS: tuple[Kind, ...] = get_args(Kind)


def _by_wait(usual: str, **others: str) -> First:
    """Return the sentence about what a reversal or refund waits for, by its `waits_for`."""
    return First(*(When("waits_for", text, (name,)) for name, text in others.items()), usual)


SENTENCES: Mapping[Kind, tuple[Lines, Lines]] = {
    "acquirer_unreachable": (
        "A node sends no sale to it since {since}: {reason}.",
        "Check the switch; an echo is tried once a minute.",
    ),
    "outcome_unknown": (
        "The outcome of a payment of {amount} is unknown since {since}: the card may have been charged.",
        First(
            When(
                "waits_for",
                "It is being reversed; it can only end as declined. If that takes long, look the payment up at the"
                " acquirer and settle it there, then resolve the order.",
                ("reversal",),
            ),
            When(
                "is_resolvable",
                "Look the payment up at the acquirer, then resolve the order. Do not charge the buyer before that.",
            ),
            When(
                "is_unreachable",
                "The acquirer is unreachable, and is asked when it answers again. You can resolve the order from"
                " {resolvable_date}.",
            ),
            When(
                "has_acquirer",
                "Wait: the acquirer is being asked. If it does not know the outcome, you can resolve the order from"
                " {resolvable_date}.",
                otherwise="Look the payment up at the acquirer; you can resolve the order from {resolvable_date}.",
            ),
        ),
    ),
    "confirmation_refused": (
        "The acquirer refused to confirm a payment of {amount} at {since}: it is not paid out, and the goods"
        " were handed over.",
        "Settle it with the acquirer or the buyer, then say how. It cannot be refunded: nothing was paid.",
    ),
    "confirmation_unanswered": (
        "The acquirer has not confirmed a payment of {amount} since {since}: it may not be paid out.",
        (
            "Look the payment up at the acquirer. It is confirmed again, next at {next}.",
            When("deadline_date", "The acquirer takes confirmations until {deadline_date}."),
        ),
    ),
    "reversal_unconfirmed": (
        _by_wait(
            "The acquirer has not confirmed the reversal of a late approval since {since}: the buyer was charged.",
            refund="A late approval of {since} is being refunded, no longer reversed: the buyer was charged.",
            person="A late approval of {since} waits for you: the buyer was charged, and the acquirer neither reverses"
            " nor refunds it.",
            reversing="The acquirer has not confirmed the reversal of a payment since {since}: its order has ended, and"
            " the buyer may have been charged.",
        ),
        _by_wait(
            "Look the payment up at the acquirer, reverse it there if needed, then resolve the reversal.",
            refund="Wait: the refund is tried again, next at {next}. If it is settled by other means, resolve the"
            " reversal.",
            person="No further attempt is made. Settle it with the acquirer or the buyer, then resolve the reversal.",
            reversing="Look the payment up at the acquirer. It is reversed again, next at {next}:"
            " `paydesk inquiries list`.",
        ),
    ),
    "refund_slow": (
        _by_wait(
            "The acquirer has not confirmed a refund of {amount} since {since}.",
            confirmation="A refund of {amount} waits for the confirmation of its payment since {since}.",
            person="A refund of {amount} of {since} waits for you: it may have taken effect.",
        ),
        _by_wait(
            "Look the refund up at the acquirer. It is tried again, next at {next}; do not refund the buyer by other"
            " means before it has ended. If the acquirer does not answer, resolve the refund.",
            confirmation="It is sent as soon as the acquirer has confirmed the payment.",
            person="The acquirer would make it again, so no further attempt is made. Look it up at the acquirer, then"
            " resolve the refund.",
        ),
    ),
    "terminals_offline": (
        First(
            When("store_id", "{count:,} of {total:,} terminals of {seller}, {store}, are offline, most since {since}."),
            When("seller_id", "{count:,} of {total:,} terminals of {seller} are offline, most since {since}."),
            "{count:,} of {total:,} terminals of all sellers are offline, most since {since}.",
        ),
        "Check their power and network, then whether they can reach this service: DNS, proxy, certificate.",
    ),
    "order_stuck": (
        When(
            "was_online",
            "An order of {amount} waits for {terminal_id}, which has been offline since {since}.",
            otherwise="An order of {amount} waits for {terminal_id}, which has never been online.",
        ),
        When(
            "can_release",
            "Check the terminal's power and network, or release the terminal, which cancels the order.",
            otherwise="Check the terminal's power and network: the card may have been charged, and only it knows the"
            " result.",
        ),
    ),
    "cancel_unanswered": (
        "{terminal_id} has not answered the request to cancel an order of {amount} since {since}.",
        When(
            "can_release",
            "Look at the terminal, or release it, which cancels the order.",
            otherwise="Look at the terminal: authorization was permitted, so the cancel request has no effect.",
        ),
    ),
    "subscription_paused": (
        "Notifications to {url} are paused since {since}: none had succeeded for five days.",
        "{repair}, then resume the subscription. Its notifications are kept for 30 days.",
    ),
    "deliveries_exhausted": (
        First(
            When(
                "count",
                "At least {count:,} notifications to {url} could not be delivered since {since}.",
                (DELIVERIES_MAX,),
            ),
            When("count", "1 notification to {url} could not be delivered since {since}.", (1,)),
            "{count:,} notifications to {url} could not be delivered since {since}.",
        ),
        "{repair}, then send them again.",
    ),
    "subscription_failing": (
        "Notifications to {url} fail since {since}.",
        (
            When("is_repair_known", "{repair}.", otherwise="Look at the last attempt and repair the receiver."),
            "The subscription is paused at {until}.",
        ),
    ),
    "print_stuck": (
        When(
            "is_fetched",
            "{terminal_id} has not printed a print action since {since}, and takes no order meanwhile.",
            otherwise="{terminal_id} has not fetched a print action since {since}, and takes no order meanwhile.",
        ),
        When(
            "is_offline",
            "Check the terminal's power and network, or release it, which cancels the print action.",
            otherwise="Check the terminal's paper, or release it, which cancels the print action.",
        ),
    ),
}
"""The message of each kind, and what to do about it."""
