"""The virtual terminals on the screen of `paydesk dev`: create one, disturb it, delete it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from paydesk.console.actions import ActionForm, Done, act
from paydesk.console.field import Field
from paydesk.console.request import PATH as CONSOLE
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.engine.terminals.schemas import TERMINAL_ID_PATTERN
from paydesk.platform.operation import Answer
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
    "lose_acknowledgement": ("Lose the next acknowledgement", "The next acknowledgement is lost on its way."),
}
"""What can go wrong with a terminal: the words of the button, and what happened."""


async def virtual(request: ConsoleRequest) -> tuple[list[dict[str, Any]], bool]:
    """Return the first virtual terminals, those that a person plays before others; and whether there are more."""
    listed = await request.api.get("terminals", virtual="true", limit=READ_MAX)
    found = sorted(listed["data"], key=lambda one: (one["script"] != MANUAL, one["created_date"], one["id"]))
    return found, "next" in listed


@screen
async def create(request: ConsoleRequest) -> Answer:
    """Create a virtual terminal."""
    action = DevelopmentForm(
        title="New virtual terminal",
        says=("It gets a point of sale of its own and takes test orders at once.",),
        submit="Create the terminal",
        fields=(_script_field(""),),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        made = await request.api.post("terminals", body={"script": sent["script"]})
        return Done(f"{made['id']} is created.")

    return await act(request, action, work)


@screen
async def disturb(request: ConsoleRequest) -> Answer:
    """Do to a virtual terminal what can happen to a terminal, or choose its script."""
    terminal_id = request.path
    action = DevelopmentForm(
        title="Disturb a terminal",
        says=(f"Does to {terminal_id} what can happen to a terminal in a shop.",),
        submit="Do it",
        fields=(Field("action", "What", "select", options=[(name, said) for name, (said, _) in FAULTS.items()]),),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        await request.api.post("/virtual/v1/terminals/{}/actions", terminal_id, body={"action": sent["action"]})
        return Done(FAULTS[sent["action"]][1] if sent["action"] in FAULTS else "Done.")

    return await act(request, action, work)


@screen
async def script(request: ConsoleRequest) -> Answer:
    """Choose what plays a virtual terminal."""
    terminal_id = request.path
    action = DevelopmentForm(
        title="Played by",
        says=("Applies from its next order on. A terminal that you play waits on its page for a card.",),
        submit="Change it",
        fields=(_script_field(request.query.get("now", "")),),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        body = {"action": "set_script", "script": sent["script"]}
        await request.api.post("/virtual/v1/terminals/{}/actions", terminal_id, body=body)
        return Done("Changed. It applies from the next order on.")

    return await act(request, action, work)


@screen
async def delete(request: ConsoleRequest) -> Answer:
    """Delete a virtual terminal."""
    terminal_id = request.path
    action = DevelopmentForm(
        title="Delete a virtual terminal",
        says=(f"{terminal_id} is deleted with the point of sale that was made for it. Its orders stay.",),
        submit="Delete the terminal",
        danger=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.delete("terminals/{}", terminal_id)
        return Done(f"{terminal_id} is deleted.")

    return await act(request, action, work)


def _script_field(now: str) -> Field:
    options = [(code, "You, on its page" if code == MANUAL else said) for code, said in SCRIPTS]
    if now and now not in dict(options):
        options.insert(0, (now, f"Script: {now}"))
    return Field("script", "Played by", "select", value=now, options=options, hint=SCRIPTS_HINT)


_create, _one = partial(form, development=True), partial(form, path_pattern=TERMINAL_ID_PATTERN, development=True)

OPERATIONS = (
    *_create("/development/terminals", create),
    *_one("/development/terminals/{terminal_id}/act", disturb),
    *_one("/development/terminals/{terminal_id}/script", script),
    *_one("/development/terminals/{terminal_id}/delete", delete),
)
