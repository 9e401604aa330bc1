"""The virtual terminals on the screen of `paydesk dev`: create one, disturb it, delete it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from paydesk.console.actions import ActionForm, Done, act
from paydesk.console.api import Api, Document
from paydesk.console.field import Field
from paydesk.console.request import PATH as CONSOLE
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.engine.terminals.schemas import TERMINAL_ID_PATTERN
from paydesk.platform.operation import Answer, Operation
from paydesk_dev.virtual.page.looks import SCRIPTS
from paydesk_dev.virtual.scripts.scripts import MANUAL

PATH, SECTION = f"{CONSOLE}/development", "development"
DevelopmentForm = partial(ActionForm, back=PATH, section=SECTION)
READ_MAX = 200
SCRIPTS_HINT = (
    "hold asks for a card and waits, ignore never takes an order, and with no_answer the acquirer does not answer."
)
FAULTS = {
    "go_offline": ("Pull the network", "The terminal has no network."),
    "go_online": ("Plug the network in", "The terminal has its network again."),
    "power_off": ("Pull the plug", "The terminal is off."),
    "power_on": ("Switch it on", "The terminal starts from its journal."),
    "reboot": ("Restart it", "The terminal restarts from its journal."),
    "take_paper": ("Take the paper out", "The terminal has no paper."),
    "load_paper": ("Load paper", "The terminal has paper."),
    "lose_acknowledgement": ("Lose the next acknowledgement", "The next acknowledgement is lost on its way."),
}
"""The disturbances of a terminal: the label of each, and the notice."""
Send = Callable[[Api, str, Mapping[str, str]], Awaitable[str]]
"""Sends the request of a form about a terminal, and returns the notice."""


async def virtual(request: ConsoleRequest) -> tuple[list[dict[str, Any]], bool]:
    """Return the first virtual terminals, those that a person plays before others; and whether there are more."""
    listed = await request.api.get("terminals", virtual="true", limit=READ_MAX)
    terminals = sorted(listed["data"], key=lambda one: (one["script"] != MANUAL, one["created_date"], one["id"]))
    return terminals, "next" in listed


def _script_fields(request: ConsoleRequest) -> Sequence[Field]:
    now = request.query.get("now", "")
    options = [(code, "You, on its page" if code == MANUAL else said) for code, said in SCRIPTS]
    if now and now not in dict(options):
        options.insert(0, (now, f"Script: {now}"))
    return (Field("script", "Played by", "select", value=now, options=options, hint=SCRIPTS_HINT),)


def terminal_form(
    path: str,
    title: str,
    says: str,
    submit: str,
    *,
    fields: Callable[[ConsoleRequest], Sequence[Field]] = lambda _: (),
    danger: bool = False,
) -> Callable[[Send], tuple[Operation, Operation]]:
    """Make the pages of a form of the function that sends its request. `{id}` in `says` is the terminal's."""

    def pages(send: Send) -> tuple[Operation, Operation]:
        @screen
        @wraps(send)
        async def answer(request: ConsoleRequest) -> Answer:
            terminal_id = request.path

            async def work(sent: Mapping[str, str]) -> Done:
                return Done(await send(request.api, terminal_id, sent))

            effect = (says.format(id=terminal_id),)
            action = DevelopmentForm(title=title, says=effect, submit=submit, fields=fields(request), danger=danger)
            return await act(request, action, work)

        pattern = TERMINAL_ID_PATTERN if "{" in path else ""
        return form(f"/development/terminals{path}", answer, path_pattern=pattern, development=True)

    return pages


@terminal_form(
    "",
    "New virtual terminal",
    "It gets a point of sale of its own and takes test orders at once.",
    "Create the terminal",
    fields=_script_fields,
)
async def create(api: Api, _: str, sent: Mapping[str, str]) -> str:
    """Create a virtual terminal."""
    created = await api.post("terminals", body={"script": sent["script"]})
    return f"{created['id']} is created."


@terminal_form(
    "/{terminal_id}/act",
    "Disturb a terminal",
    "Does to {id} what can happen to a terminal in a shop.",
    "Do it",
    fields=lambda _: (Field("action", "What", "select", options=[(name, said) for name, (said, _) in FAULTS.items()]),),
)
async def disturb(api: Api, terminal_id: str, sent: Mapping[str, str]) -> str:
    """Do to a virtual terminal what can happen to a terminal, or choose its script."""
    await api.post("/virtual/v1/terminals/{}/actions", terminal_id, body={"action": sent["action"]})
    return FAULTS[sent["action"]][1] if sent["action"] in FAULTS else "Done."


@terminal_form(
    "/{terminal_id}/script",
    "Played by",
    "Applies from its next order on. A terminal that you play waits on its page for a card.",
    "Change it",
    fields=_script_fields,
)
async def script(api: Api, terminal_id: str, sent: Mapping[str, str]) -> str:
    """Choose what plays a virtual terminal."""
    body = {"action": "set_script", "script": sent["script"]}
    await api.post("/virtual/v1/terminals/{}/actions", terminal_id, body=body)
    return "Changed. It applies from the next order on."


@terminal_form(
    "/{terminal_id}/delete",
    "Delete a virtual terminal",
    "{id} is deleted with the point of sale that was made for it. Its orders stay.",
    "Delete the terminal",
    danger=True,
)
async def delete(api: Api, terminal_id: str, _: Mapping[str, str]) -> str:
    """Delete a virtual terminal."""
    await api.delete("terminals/{}", terminal_id)
    return f"{terminal_id} is deleted."


OPERATIONS = (*create, *disturb, *script, *delete)


def _link_to_script(request: ConsoleRequest, terminal: Document) -> str:
    if not request.may_change:
        return ""
    address = f"{PATH}/terminals/{terminal['id']}/script?now={quote(terminal['script'], safe='')}"
    return Markup(' <a href="{}" data-dialog>Change</a>').format(address)


ADDITIONS: dict[str, Callable[[ConsoleRequest, Document], str]] = {
    "terminals.acts": lambda *_: Markup('<a class="button" href="{}">Virtual terminals</a>').format(PATH),
    "terminal.script": _link_to_script,
}
