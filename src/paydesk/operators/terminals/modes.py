"""Setting the mode of many terminals at once: those of a filtered list, but for the ones that are not chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paydesk.console.actions import ActionForm, Done, act
from paydesk.console.api import ApiRefused, Document
from paydesk.console.field import Field
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.operators.list_pages import address, filters_in
from paydesk.operators.terminals.fields import MODES, place_of, serial_of
from paydesk.operators.terminals.page import BY, HERE, QUERY, ROWS, SECTION
from paydesk.platform.operation import Answer

_CHOSEN = "terminal:"
"""The start of the name of a checkbox, before the id of the terminal that it selects."""
NONE_CHOSEN = "Choose at least one terminal."


@screen
async def set_modes(request: ConsoleRequest) -> Answer:
    """Set the mode of the terminals that a page of the list has, or of some of them."""
    chosen, after = filters_in(request, BY), request.query.get("after", "")
    listed = await request.api.get("terminals", **chosen, after=after, limit=ROWS)
    terminals: Sequence[Document] = listed["data"]
    has_sellers = len({one["seller_id"] for one in terminals}) > 1
    action = ActionForm(
        title="Set the mode of many terminals",
        says=(
            "Each chosen terminal gets the mode; one that is offline shows it when it is back.",
            "One with an order or a print action keeps its mode; the next page names it.",
        ),
        impossible="" if terminals else "There are no terminals on this page of the list.",
        submit="Set the mode of the chosen terminals",
        back=address(HERE, chosen, after=after),
        section=SECTION,
        repeatable=True,
        fields=(
            mode_field("", ("", "Choose one")),
            *(
                Field(
                    f"{_CHOSEN}{one['id']}",
                    f"{serial_of(one['id'])} at {place_of(one)}{', ' + one['seller_name'] if has_sellers else ''}:"
                    f" {one['operating_mode']}",
                    "checkbox",
                    # Those of a filtered list are chosen at first.
                    value="yes" if chosen else "",
                    required=False,
                    group="Terminals",
                )
                for one in terminals
            ),
        ),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        # Those that were on the page when the form was shown, of which some may be gone.
        ids = [name.removeprefix(_CHOSEN) for name, value in sent.items() if name.startswith(_CHOSEN) and value]
        if not ids:
            raise request.refusal(400, "required_properties", NONE_CHOSEN)
        refused: dict[str, ApiRefused] = {}
        for terminal_id in ids:
            try:
                await request.api.patch("terminals/{}", terminal_id, body={"operating_mode": sent["mode"]})
            except ApiRefused as refusal:
                refused[terminal_id] = refusal
        return _done(request, sent["mode"], len(ids), refused)

    return await act(request, action, work)


def mode_field(now: str, *more: tuple[str, str]) -> Field:
    """Return the field of a form that sets a mode. `more` are choices that go first."""
    options = [*more, *((name, f"{name}: {meaning}") for name, meaning in MODES.items())]
    return Field("mode", "Mode", "select", value=now, options=options, sets=("operating_mode",))


def _done(request: ConsoleRequest, mode: str, count: int, refused: Mapping[str, ApiRefused]) -> Done:
    """Return how many terminals have the mode now, and why others have not. Raises `ApiRefused` if none was changed."""
    kept = [f"{serial_of(terminal_id)}: {' '.join(refusal.sentences)}" for terminal_id, refusal in refused.items()]
    if len(kept) == count:
        first = next(iter(refused.values()))
        # The mode itself is wrong, or nothing can be changed.
        if first.status not in (404, 409):
            raise first
        raise request.refusal(409, "none_changed", "No terminal was changed.", *kept)
    changed = count - len(kept)
    text = f"{changed} terminals are in mode {mode}." if changed > 1 else f"One terminal is in mode {mode}."
    return Done(f"{text} Not changed: {' '.join(kept)}" if kept else text)


OPERATIONS = form("/terminals/modes", set_modes, query=QUERY)
