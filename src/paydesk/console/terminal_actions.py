"""What an operator does to a terminal: release it, set its mode and tips, revoke its token, delete it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from paydesk.console.actions import REASON, ActionForm, Done, Field, act
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.console.terminal_looks import MODES, TAKING_ORDERS
from paydesk.console.terminals import HERE, SECTION
from paydesk.operation import Answer
from paydesk.operators.terminals.fields import serial_of

NEEDS_FREE = "It must have no order and no print action."
TIPS_MAX = 5


@screen
async def release(request: ConsoleRequest) -> Answer:
    """Cancel what holds a terminal."""
    terminal_id = request.path
    slot = (await request.api.get("terminals/{}/queue", terminal_id)).get("current")
    action = ActionForm(
        title=f"Release {serial_of(terminal_id)}",
        says=_release_says(slot) if slot is not None else (),
        impossible="" if slot is not None else "Nothing holds the terminal: it is free.",
        submit="Release the terminal",
        back=f"{HERE}/{terminal_id}",
        section=SECTION,
        repeatable=True,
        fields=(REASON,),
        danger=True,
    )

    async def work(sent: Mapping[str, str]) -> Done:
        changed = await request.api.post("terminals/{}/release", terminal_id, body={"reason": sent["reason"]})
        released = changed.get("released")
        if released is None:
            return Done("The terminal was free already. Nothing has changed.")
        if released["type"] == "print":
            return Done("The print action is canceled. The terminal is free.")
        return Done(f"The order {released['id']} is canceled, and nothing was charged. The terminal is free.")

    return await act(request, action, work)


@screen
async def mode(request: ConsoleRequest) -> Answer:
    """Set a terminal's mode."""
    terminal = await request.api.get("terminals/{}", request.path)
    action = ActionForm(
        title=f"Set the mode of {serial_of(request.path)}",
        says=(f"It is in mode {terminal['operating_mode']}. It shows the new mode at once.", NEEDS_FREE),
        submit="Set the mode",
        back=f"{HERE}/{request.path}",
        section=SECTION,
        repeatable=True,
        fields=(mode_field(terminal["operating_mode"]),),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        changed = await request.api.patch("terminals/{}", request.path, body={"operating_mode": sent["mode"]})
        return Done(mode_done(changed["operating_mode"]))

    return await act(request, action, work)


@screen
async def tips(request: ConsoleRequest) -> Answer:
    """Set the tips that a terminal offers."""
    terminal = await request.api.get("terminals/{}", request.path)
    action = ActionForm(
        title=f"Tips at {serial_of(request.path)}",
        says=("The buyer chooses one of them, or none, before the payment. From the next order on.", NEEDS_FREE),
        submit="Set the tips",
        back=f"{HERE}/{request.path}",
        section=SECTION,
        repeatable=True,
        fields=(
            Field(
                "tips",
                "Percentages",
                value=", ".join(map(str, terminal.get("tip_percentages", ()))),
                hint=f"Up to {TIPS_MAX}, such as 10, 15, 20. Empty: it offers no tips.",
                required=False,
                maxlength=60,
                sets=("tip_percentages",),
            ),
        ),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        body = {"tip_percentages": percentages(sent["tips"])}
        changed = await request.api.patch("terminals/{}", request.path, body=body)
        offered = changed.get("tip_percentages")
        if not offered:
            return Done("The terminal offers no tips.")
        return Done(f"The terminal offers tips of {', '.join(f'{one} %' for one in offered)}.")

    return await act(request, action, work)


@screen
async def revoke(request: ConsoleRequest) -> Answer:
    """Revoke a terminal's device token."""
    terminal_id = request.path
    action = ActionForm(
        title=f"Revoke the token of {serial_of(terminal_id)}",
        says=(
            "For a terminal that is lost or stolen: it is disconnected at once and takes no orders until it is paired"
            " again.",
            "It can still report results of the orders that it has, for 7 days.",
        ),
        submit="Revoke the token",
        back=f"{HERE}/{terminal_id}",
        section=SECTION,
        repeatable=True,
        danger=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.post("terminals/{}/revoke", terminal_id)
        return Done("The device token is revoked. To use the terminal again, pair it again.")

    return await act(request, action, work)


@screen
async def delete(request: ConsoleRequest) -> Answer:
    """Delete a terminal."""
    terminal_id = request.path
    terminal = await request.api.get("terminals/{}", terminal_id)
    action = ActionForm(
        title=f"Delete {serial_of(terminal_id)}",
        says=(
            f"{terminal['seller_name']} does not have the terminal any more, and its device token is revoked. Its"
            " orders stay.",
            "Any seller can be paired with it afterwards.",
            NEEDS_FREE,
        ),
        submit="Delete the terminal",
        back=f"{HERE}/{terminal_id}",
        section=SECTION,
        repeatable=True,
        danger=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.delete("terminals/{}", terminal_id)
        return Done(f"{terminal_id} is deleted.", path=HERE)

    return await act(request, action, work)


def mode_field(now: str) -> Field:
    """Return the field of a form that sets a mode."""
    options = [(name, f"{name}: {meaning}") for name, meaning in MODES.items()]
    return Field(
        "mode",
        "Mode",
        "select",
        value=now if now in MODES else "PDV",
        options=options,
        sets=("operating_mode",),
    )


def mode_done(now: str) -> str:
    """Return what happened when the mode was set."""
    return f"The terminal is in mode {now}: it {'takes' if now in TAKING_ORDERS else 'does not take'} orders."


def percentages(text: str) -> list[object]:
    """Return the numbers in a text; other parts stay texts, so that the refusal names them."""
    parts = [part for part in re.split(r"[\s,;%]+", text) if part]
    return [int(part) if part.isascii() and part.isdigit() and len(part) < 10 else part for part in parts]


def _release_says(slot: Mapping[str, str]) -> tuple[str, ...]:
    if slot["type"] == "print":
        return ("Its print action is canceled at once, without waiting for the terminal.",)
    return (
        f"Its order {slot['id']} is canceled at once, without waiting for the terminal. Nothing is charged.",
        "The release is refused once authorization is permitted, because the card may then be charged.",
    )


OPERATIONS = (
    *form("/terminals/{terminal_id}/release", "terminal_release", "Release a terminal", release),
    *form("/terminals/{terminal_id}/mode", "terminal_mode", "Set a terminal's mode", mode),
    *form("/terminals/{terminal_id}/tips", "terminal_tips", "Set a terminal's tips", tips),
    *form("/terminals/{terminal_id}/revoke", "terminal_revoke", "Revoke a terminal's device token", revoke),
    *form("/terminals/{terminal_id}/delete", "terminal_delete", "Delete a terminal", delete),
)
