"""Generate the page about restarted terminals from the table of verdicts."""

from __future__ import annotations

from collections.abc import Iterator

from paydesk.device.verdicts import TABLE, Effect, OrderState, Progress, Verdict
from paydesk.docs.markdown import page, table

_HEAD = """\
# When a terminal restarts

<!-- Written by `make generate` from `device/verdicts.py`; changes made here are lost. -->

A terminal writes each step of a payment to its journal before it makes it. When it starts, `POST /device/v1/hello` sends
the journal: for each lease `last_step`, `sent` and, if there is one, `result`. The answer has a verdict on each lease.
`sent` is `true` once the terminal has turned to the acquirer, which it writes to the journal before it does.

With a result in the journal the verdict is always `report`. Otherwise it depends on two things: how far the terminal came,
and the state of the order."""

_TAIL = """\
`sent: false` counts only if the service does not know better: a result of the lease, or an authorization that the
service requested for a terminal of kind `service`, shows that the acquirer was called.

A live order that is missing from the journal is offered again before the permit, and gets `hold` afterwards."""

PROGRESS: dict[Progress, str] = {
    "offered": "the order was offered",
    "acknowledged": "the order was acknowledged",
    "unsent": "the permit was requested, `sent: false`",
    "authorizing": "the permit was requested, `sent` is `true` or missing",
}
STATES: dict[OrderState, str] = {
    "ended": "has ended",
    "created": "created",
    "open": "before the permit, in time",
    "canceling": "before the permit, cancel requested",
    "overdue": "before the permit, expired",
    "permitted": "permitted, permit and order in time, no cancel requested",
    "lapsed": "permitted, but too late or cancel requested",
    "unknown": "`check_on_terminal`",
}
VERDICTS: dict[Verdict, str] = {
    "forget": "Delete the lease from the journal.",
    "resume": "Go on: acknowledge again, or if the permit was requested, request it again.",
    "abort": "Delete the lease. Never call the acquirer for it.",
    "hold": "If the outcome is in doubt, repeat the call to the acquirer under the same key before `until`; report the"
    " outcome, or `unknown`.",
    "report": "Send the result, under the id that is in the journal.",
}
EFFECTS: dict[Effect, str] = {
    "none": "unchanged",
    "re_lease": "goes on",
    "cancel": "canceled",
    "inquire": "`check_on_terminal`, and an inquiry",
    "fail": "failed/`processing_error`",
}


def page_of_recovery() -> str:
    """Return docs/recovery.md: the verdicts, their table, and a picture for each row."""
    rows = ((PROGRESS[progress], *(_cell(progress, state) for state in STATES)) for progress in PROGRESS)
    return page(
        _HEAD,
        table(("Verdict", "What the terminal does"), ((f"`{name}`", text) for name, text in VERDICTS.items())),
        "## The table",
        "The last step of the terminal, the order's state, the verdict, and what becomes of the order:",
        table(("In the journal", *STATES.values()), rows),
        _TAIL,
        "## As pictures",
        *(part for progress in PROGRESS for part in _picture(progress)),
    )


def _cell(progress: Progress, state: OrderState) -> str:
    verdict, effect = TABLE[progress, state]
    return f"`{verdict}`: {EFFECTS[effect]}"


def _picture(progress: Progress) -> Iterator[str]:
    """Yield the heading and the diagram of a row: from the states of the order to the verdicts."""
    text = PROGRESS[progress]
    yield f"### {text[0].upper()}{text[1:]}"
    yield "\n".join(("```mermaid", "flowchart LR", *_arrows(progress), "```"))


def _arrows(progress: Progress) -> Iterator[str]:
    for state, text in STATES.items():
        verdict, effect = TABLE[progress, state]
        end = f'{verdict}_{effect}(["{verdict}: {_plain(EFFECTS[effect])}"])'
        yield f'    {state}["{_plain(text)}"] --> {end}'


def _plain(text: str) -> str:
    return text.replace("`", "")
