"""Generate the page about restarted terminals from the table of verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from paydesk.device.verdicts import TABLE, Effect, OrderState, Progress, Verdict
from paydesk.docs.markdown import page, table

_HEAD = """\
# When a terminal restarts

<!-- Written by `make generate` from `device/verdicts.py`; changes made here are lost. -->

A terminal writes each step of a payment to its journal first. When it starts, it sends the journal with
`POST /device/v1/hello`: for each lease `last_step`, `sent` and, if there is one, `result`. `sent` says whether the
terminal has called the acquirer; it becomes `true` in the journal before the call. The answer has a verdict on each
lease."""

_TAIL = """\
Once authorization is permitted, `sent: false` is judged by the third column whatever the last step is: the terminal may
have been killed before it wrote the next one. `sent: true` is always judged by the last column.

`sent: false` counts only if the service does not know better: a result of the lease, or an authorization that the
service requested for a terminal of kind `service`, shows that the acquirer was called.

A live order that is missing from the journal is offered again before the permit, and gets `hold` afterwards."""

PROGRESS: dict[Progress, str] = {
    "offered": "the order was offered",
    "acknowledged": "the order was acknowledged",
    "unsent": "the permit was requested, `sent` is `false`",
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
    return page(
        _HEAD,
        table(("Verdict", "What the terminal does"), ((f"`{name}`", text) for name, text in VERDICTS.items())),
        "## Verdicts",
        "With a result in the journal the verdict is `report`. Otherwise it depends on how far the terminal came and on"
        " the state of the order; each cell has the verdict, and what becomes of the order:",
        table(("Order", *PROGRESS.values()), (_row(state) for state in STATES)),
        _TAIL,
        "## As pictures",
        *(part for group in _groups() for part in _picture(group)),
    )


def _row(state: OrderState) -> tuple[str, ...]:
    return STATES[state], *(_cell(progress, state) for progress in PROGRESS)


def _cell(progress: Progress, state: OrderState) -> str:
    verdict, effect = TABLE[progress, state]
    return f"`{verdict}`: {EFFECTS[effect]}"


def _groups() -> Iterator[list[Progress]]:
    """Yield the columns of the table; equal ones together."""
    for _, group in groupby(PROGRESS, lambda progress: [TABLE[progress, state] for state in STATES]):
        yield list(group)


def _picture(group: Sequence[Progress]) -> Iterator[str]:
    """Yield the heading and the diagram of equal columns: from the states of the order to the verdicts."""
    text = ", or ".join(PROGRESS[progress] for progress in group)
    yield f"### {text[0].upper()}{text[1:]}"
    yield "\n".join(("```mermaid", "flowchart LR", *_arrows(group[0]), "```"))


def _arrows(progress: Progress) -> Iterator[str]:
    for state, text in STATES.items():
        verdict, effect = TABLE[progress, state]
        end = f'{verdict}_{effect}(["{verdict}: {_plain(EFFECTS[effect])}"])'
        yield f'    {state}["{_plain(text)}"] --> {end}'


def _plain(text: str) -> str:
    return text.replace("`", "")
