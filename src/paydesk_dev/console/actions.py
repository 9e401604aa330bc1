"""The actions of a developer: create an order, move the clock, remove all orders."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from paydesk.console import sessions
from paydesk.console.actions import Done, act, decimal
from paydesk.console.field import Field
from paydesk.console.request import PATH as CONSOLE
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import screen
from paydesk.console.view import HOUR_MS
from paydesk.operators.terminals.looks import page_of
from paydesk.platform.operation import Answer
from paydesk_dev.clock.next_due import CLOCK_MS_MAX
from paydesk_dev.console import terminals as development_terminals
from paydesk_dev.console.terminals import READ_MAX, DevelopmentForm
from paydesk_dev.virtual.scripts.scripts import MANUAL

DEFAULT_AMOUNT = "24.90"
MOVES = ("61s", "15m", "3h")
"""The durations with a button of their own."""
NEXT, FREEZE, RESUME = "next", "freeze", "resume"
NOTHING_DUE = "Nothing is due, so the clock was not moved."
DUE = {
    "order_expiry": ("an order expires", "{} orders expire"),
    "outcome_deadline": ("the outcome of an order becomes unknown", "the outcomes of {} orders become unknown"),
    "cancel_deadline": ("a cancel request ends", "{} cancel requests end"),
    "print_action_expiry": ("a print action expires", "{} print actions expire"),
    "confirmation": ("an approval is confirmed or undone", "{} approvals are confirmed or undone"),
    "refund_attempt": ("a refund is attempted", "{} refunds are attempted"),
    "inquiry": ("the acquirer is asked for an outcome", "the acquirer is asked for {} outcomes"),
    "reversal_attempt": ("a reversal is attempted", "{} reversals are attempted"),
    "webhook_delivery": ("a webhook is sent", "{} webhooks are sent"),
}
"""The words for what can be due next, one and several."""


def due_words(due: Mapping[str, Any]) -> str:
    """Return what is due, such as "2 webhooks are sent"."""
    one, several = DUE[due["kind"]]
    return one if due["count"] == 1 else several.format(due["count"])


@screen
async def create_order(request: ConsoleRequest) -> Answer:
    """Create an order, and open the page of the terminal if a person plays it, else that of the order."""
    listed, has_more = await development_terminals.virtual(request)
    terminals = [one for one in listed if one["operating_mode"] == "PDV"]
    only = f"Of the first {READ_MAX} virtual terminals. Any other: paydesk orders create --terminal ID"
    action = DevelopmentForm(
        title="Take a payment",
        says=(
            "A test order, as an application of the terminal's seller would create it. A terminal that you play opens;"
            " there you choose a card. Others play their script, and the order's page opens.",
        ),
        submit="Create the order",
        fields=(
            Field(
                "terminal",
                "Terminal",
                "select",
                options=[
                    (one["id"], f"{one['id']}: {'you play it' if one['script'] == MANUAL else one['script']}")
                    for one in terminals
                ],
                hint=only if has_more else "",
            ),
            Field("amount", "Amount", value=DEFAULT_AMOUNT, inputmode="decimal", maxlength=20),
            Field("description", "Description", required=False, maxlength=150),
            Field("external_reference", "Reference", required=False, maxlength=64, hint="Yours, to find it again."),
        ),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        body = {name: sent[name] for name in ("amount", "description", "external_reference") if sent.get(name)}
        body["amount"] = decimal(request, sent["amount"])
        created = await request.api.post("/virtual/v1/terminals/{}/orders", sent["terminal"], body=body)
        used = next((one for one in terminals if one["id"] == sent["terminal"]), {})
        if used.get("script") == MANUAL and page_of(used):
            return Done("", path=page_of(used))
        return Done("The order is created.", path=f"{CONSOLE}/orders/{created['id']}")

    return await act(request, action, work)


@screen
async def clock(request: ConsoleRequest) -> Answer:
    """Advance the clock, stop it, or let it run."""
    now = (await request.api.get("/dev/clock"))["now"]
    action = DevelopmentForm(
        title="Move the clock ahead",
        says=(
            f"For the service it is {now[:10]}, {now[11:16]} UTC. Everything that is due until the new time happens at"
            " once: orders expire, refunds and webhooks are attempted again, and tokens end.",
            "The clock stays ahead after a restart. Once all orders are removed, `paydesk clock reset` moves it back.",
        ),
        submit="Move the clock",
        fields=(
            Field(
                "by",
                "By how much",
                hint="A duration, such as 61s for 61 seconds, 15m for 15 minutes, 3h for three hours, or 181d for half"
                " a year.",
                maxlength=20,
                noun="duration",
                sets=("advance",),
            ),
        ),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        by = sent["by"]
        move = {NEXT: "to_next", FREEZE: "freeze", RESUME: "resume"}.get(by)
        async with _session_kept(request):
            moved = await request.api.post("/dev/clock", body={move: True} if move else {"advance": by})
        said = {FREEZE: "The clock is stopped.", RESUME: "The clock runs."}.get(by, f"The clock was advanced by {by}.")
        if by == NEXT:
            said = NOTHING_DUE
            if "next" in moved:
                said = f"The clock was advanced to what was due next: {due_words(moved['next'])}."
        if file := moved.get("renewed_credentials"):
            said += f" The tokens in {file} had ended by then; the file has new ones."
        return Done(said)

    return await act(request, action, work)


@asynccontextmanager
async def _session_kept(request: ConsoleRequest) -> AsyncIterator[None]:
    """Keep the session of the request while the clock is moved, also beyond the end of the session."""
    call, session_id = request.call, request.operator.session_id
    hours_ms, move = call.settings.session_hours * HOUR_MS, partial(sessions.move, session_id=session_id)
    await call.database.write(partial(move, used_ms=CLOCK_MS_MAX, expires_ms=CLOCK_MS_MAX + hours_ms))
    try:
        yield
    finally:
        now_ms = call.clock.now_ms()
        await call.database.write(partial(move, used_ms=now_ms, expires_ms=now_ms + hours_ms))


@screen
async def reset(request: ConsoleRequest) -> Answer:
    """Remove all orders with everything that depends on them."""
    action = DevelopmentForm(
        title="Remove all orders",
        says=(
            "Removes the orders of all sellers with their payments, refunds, notifications and print actions, the demo"
            " inbox, stored idempotency keys, codes, and every token that is not in the credentials file. Virtual"
            " terminals stop what they are doing.",
            "Applications, sellers, terminals, subscriptions, operators and the clock stay. This cannot be undone.",
        ),
        danger=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.post("/dev/reset")
        return Done("All orders are removed. The terminals are idle.")

    return await act(request, action, work)
