"""The pages of `docs/` that are read off the code: `python -m paydesk.generated` writes them, `--check` compares."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from paydesk.acquiring import guide
from paydesk.api import OPERATIONS
from paydesk.errors import GONE, ErrorKind
from paydesk.http import openapi
from paydesk.http.advice import advice
from paydesk.http.retired import DESCRIBED, Retired
from paydesk.oauth import lifecycle
from paydesk.operation import Operation
from paydesk.orders import status
from paydesk.settings import PREFIX, THROTTLES, Settings

DOCS = Path(__file__).parents[2] / "docs"

_ERRORS_HEAD = """\
# Errors

<!-- Written by `make generate` from the table of operations; changes made here are lost. -->

The checks of an operation are made in the order of its list, and the first that fails answers; only the faults of a
body are told all at once. The [last section](#every-error) says what each error means and what to do about it. The
token endpoints answer a flat body, everything else a list under `errors`."""

_RETIRED_HEAD = """\
Operations of the earlier interface answer 410 `gone` before anything else is looked at, with their successor's name in
the message and a `Link` to it. Whatever else is asked below `/point/integration-api` is sent to `GET /docs`."""

_LIFECYCLE_HEAD = """\
# The life of an order

<!-- Written by `make generate` from `orders/status.py`; changes made here are lost. -->

`processed` and `failed` can be trusted alone. Nothing leaves `failed`, `canceled` or `refunded`. Each move raises
`version` by one and is told to the subscribed applications as its action."""

_LIFECYCLE_TAIL = """\
A move *before the grant* is possible only until the terminal was told that it may ask the acquirer: that is the point
of no return. What meets there, a cancel, the expiry, a result, is decided by which of them was written first.

- **Before the grant** no card was charged. A cancel, the red key at the terminal, and the time that runs out each end
  the order as `canceled`; its payment's `status_detail` says which of them it was.
- **After the grant** only the outcome ends the order. A cancel is answered 202 and can't win, and 409 once nobody knows
  the outcome; nothing expires.
- **`check_on_terminal`** is an order whose outcome nobody knows yet, and ends as `processed` or `failed`:
  [When the outcome is unknown](unknown-outcomes.md).
- **An approval that comes too late**, for an order that has ended otherwise or was paid already, moves nothing. It is
  given back at the acquirer, and the order stays what it was.
- **What is given back** moves a paid order only when the acquirer has confirmed it: [Refund a payment](refunds.md).

With `order_statuses = "extended"` two states are shown under a name of their own, and their actions too: detail
`expired` as status `expired`, `check_on_terminal` as `action_required`. The moves are the same. Which states of a
payment intent, of the earlier interface, became which: [Migrate from payment intents](migrate.md#states)."""

_TOKENS_HEAD = """\
# The life of a chain of tokens

<!-- Written by `make generate` from `oauth/lifecycle.py`; changes made here are lost. -->

A seller's consent gives a code, the code is exchanged for the first tokens, and every refresh makes the next
generation: all of them are one chain, and end together. An application can be wrong about which token is the newest,
because an answer was lost or two of its processes refreshed at once. So a used refresh token goes on answering the
tokens that were made of it; only much later it means that somebody else has it too."""

_SETTINGS_HEAD = """\
# Settings

<!-- Written by `make generate` from `settings.py`; changes made here are lost. -->

A setting is a variable of the environment, or a name in the TOML file that `PAYDESK_SETTINGS` points to; the
environment wins. Lists are comma-separated in the environment. A setting that is wrong or unknown stops the start
and is named."""

_LIMITS_HEAD = """\
# Limits

<!-- Written by `make generate` from `settings.py` and `generated.py`; changes made here are lost. -->

How often one may call, and how often one may fail to say who one is. Whoever goes beyond is answered 429 with
`Retry-After`, the whole seconds after which there is room again; nothing was done, and the same request may be sent
then. Every limit is a [setting](settings.md) and 0 turns it off. A limit lets its burst through at once, or its number
where it has none, and then one after the other, as many as the number in its time."""

_LIMITS_TAIL = """\
## What is counted

- Limits are a node's own, kept in memory: with four processes a client may call four times as often.
- An address is an IPv4 address or the /64 that an IPv6 subscriber has. Behind a proxy set `trusted_proxies`: otherwise
  all clients are one address, the proxy's, and fail together.
- A refusal uses nothing up: to hammer makes the wait no longer.
- The tables are bounded. Where one is full the entry goes that is nearest to being unused, so a flood of addresses
  makes nobody wait.
- `paydesk dev` throttles failures alone, unless the settings say otherwise.

## Nobody is locked out by others

- A client that has authenticated from an address is not refused there for failures, its own or its neighbours', for
  `known_address_hours`; nodes tell each other. Its client_id is no secret, and junk with it costs the client nothing.
- A good access token is never refused for failures of the address it comes from. One that has expired or was revoked is
  told so, however many guesses come from beside it.
- A seller who signed in from an address, or with a browser, has a budget of their own there. What strangers try with
  the seller's e-mail address from elsewhere doesn't touch it. Unknown e-mail addresses count like known ones.
- What can be used up is `sign_in_failures_per_hour_email`: whoever tries from many addresses keeps a seller waiting who
  comes with a new browser from a new address, and nobody else. Without it passwords could be guessed from everywhere.

## What else has a bound

At most two passwords are compared at a time and a few wait; beyond that a sign-in is answered 503 at once, strangers
before sellers who are known. A wrong password is told on the half second of its try, a wrong client secret on the
hundredth, so that time says nothing about either. Bounds of requests and connections are among the
[settings](settings.md)."""

_NONE = "none"
_DIFF_LINES_MAX = 40


def openapi_json() -> str:
    """The whole interface as an OpenAPI 3.1 document."""
    return json.dumps(openapi.document(OPERATIONS, DESCRIBED), indent=1, ensure_ascii=False) + "\n"


def errors_md(operations: Iterable[Operation] = OPERATIONS) -> str:
    """Every operation with its errors in the order of the checks, then every error with what to do."""
    rows = tuple(operations)
    lines = [_ERRORS_HEAD]
    for surface, text in openapi.SURFACES.items():
        listed = [row for row in rows if row.surface == surface and openapi.errors_in_order(row)]
        if listed:
            lines += ["", f"## {surface.capitalize()}", "", text]
            for row in listed:
                lines += ["", *_errors_of(row)]
    lines += ["", "## Retired", "", _RETIRED_HEAD, "", *_table(("Earlier", "Now"), map(_retired, DESCRIBED))]
    return "\n".join([*lines, "", "## Every error", "", *_glossary(rows)]) + "\n"


def _retired(row: Retired) -> tuple[str, str]:
    return f"`{row.method} {row.path}`", f"`{row.successor}`"


def _errors_of(row: Operation) -> Iterator[str]:
    mark = " (development only)" if row.development else ""
    yield f"### {row.method} {openapi.path_template(row)}{mark}"
    yield ""
    for number, kind in enumerate(openapi.errors_in_order(row), 1):
        yield f"{number}. {kind.status} `{kind.code}`"


def _glossary(rows: Sequence[Operation]) -> Iterator[str]:
    kinds = {GONE, *(kind for row in rows for kind in openapi.errors_in_order(row))}
    yield from _table(
        ("HTTP", "Code", "Message", "What to do"),
        ((kind.status, f"`{kind.code}`", kind.sentence, advice(kind)) for kind in sorted(kinds, key=_by_status)),
    )


def _by_status(kind: ErrorKind) -> tuple[int, str, str]:
    return kind.status, kind.code, kind.sentence


def order_lifecycle_md() -> str:
    """The life of an order: the diagram, the states and the moves."""
    return "\n".join(
        [
            _LIFECYCLE_HEAD,
            "",
            "```mermaid",
            "stateDiagram-v2",
            *_diagram(),
            "```",
            "",
            "## States",
            "",
            *_table(
                ("status", "status_detail", "payment's status_detail"),
                ((f"`{state.status}`", f"`{state.detail}`", f"`{state.payment_detail}`") for state in status.STATES),
            ),
            "",
            "## Moves",
            "",
            *_table(("Move", "From", "To", "By", "Action"), map(_move, status.MOVES)),
            "",
            _LIFECYCLE_TAIL,
            "",
        ]
    )


def _diagram() -> Iterator[str]:
    yield from _edges(
        (source, target, move.name)
        for move in status.MOVES
        for source in _statuses(move.sources) or ["[*]"]
        for target in _statuses(move.targets) or [source]
    )
    for final in status.FINAL:
        yield f"    {final} --> [*]"


def _edges(moves: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """The arrows of a picture, each with the names of all moves from its source to its target."""
    edges: dict[tuple[str, str], list[str]] = {}
    for source, target, name in moves:
        edges.setdefault((source, target), []).append(name)
    for (source, target), names in edges.items():
        yield f"    {source} --> {target}: {', '.join(names)}"


def _statuses(states: Iterable[status.State]) -> list[str]:
    return list(dict.fromkeys(str(state.status) for state in states))


def _move(move: status.Move) -> tuple[str, ...]:
    return (
        f"`{move.name}`",
        _states(move.sources) or _NONE,
        _states(move.targets) or "itself",
        move.by + (", before the grant" if move.before_grant else ""),
        f"`{move.action}`",
    )


def _states(states: Iterable[status.State]) -> str:
    by_status: dict[str, list[str]] = {}
    for state in states:
        by_status.setdefault(state.status, []).append(f"`{state.payment_detail}`")
    return "; ".join(f"{name}: {', '.join(details)}" for name, details in by_status.items())


def token_lifecycle_md() -> str:
    """The life of a chain of tokens: the diagram, the states and the moves."""
    return "\n".join(
        [
            _TOKENS_HEAD,
            "",
            "```mermaid",
            "stateDiagram-v2",
            *_edges(
                (source, move.target.name if move.target is not None else source, move.name)
                for move in lifecycle.MOVES
                for source in [state.name for state in move.sources] or ["[*]"]
            ),
            f"    {lifecycle.WITHDRAWN.name} --> [*]",
            "```",
            "",
            "## States",
            "",
            *_table(("State", "Good for something"), ((f"`{one.name}`", one.good) for one in lifecycle.STATES)),
            "",
            "## Moves",
            "",
            *_table(
                ("Move", "From", "To", "When what is presented", "Answer", "Reason in the log"),
                map(_token_move, lifecycle.MOVES),
            ),
            "",
            "What stands in no row changes nothing. Who is suspended, and addresses, verifiers and scopes that differ,",
            "are refused before and move nothing. What has ended is forgotten later: [what is kept](retention.md).",
            "",
        ]
    )


def _token_move(move: lifecycle.Move) -> tuple[str, ...]:
    return (
        f"`{move.name}`",
        ", ".join(f"`{source.name}`" for source in move.sources) or _NONE,
        f"`{move.target.name}`" if move.target is not None else "itself",
        move.when,
        move.answer,
        f"`{move.reason}`" if move.reason else "",
    )


def settings_md() -> str:
    """Every setting with its variable, its default and what it is for."""
    return "\n".join(
        [
            _SETTINGS_HEAD,
            "",
            *_table(
                ("Setting", "Variable", "Default", "What it is for"),
                (
                    (f"`{name}`", f"`{PREFIX}{name.upper()}`", _shown(field.default), field.description or "")
                    for name, field in Settings.model_fields.items()
                ),
            ),
            "",
        ]
    )


def limits_md() -> str:
    """What is throttled, by how much, and who is not."""
    listed = {*THROTTLES, "client_requests_burst", "token_requests_burst", "known_address_hours"}
    rows = (
        (f"`{name}`", _shown(field.default), str(field.description))
        for name, field in Settings.model_fields.items()
        if name in listed
    )
    table = _table(("Setting", "Default", "What it limits"), rows)
    return "\n".join([_LIMITS_HEAD, "", *table, "", _LIMITS_TAIL, ""])


def simulator_md() -> str:
    """The simulated acquirer: its cards, amounts and scripts."""
    return guide.page(_table)


def _shown(default: Any) -> str:
    if default is None or default == ():
        return _NONE
    return f"`{', '.join(map(str, default)) if isinstance(default, tuple) else default}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield _line(head)
    yield _line(["---"] * len(head))
    for row in rows:
        yield _line(row)


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


PAGES: dict[str, Callable[[], str]] = {
    "openapi.json": openapi_json,
    "errors.md": errors_md,
    "limits.md": limits_md,
    "order-lifecycle.md": order_lifecycle_md,
    "settings.md": settings_md,
    "simulator.md": simulator_md,
    "token-lifecycle.md": token_lifecycle_md,
}


def write(docs: Path = DOCS) -> None:
    """Write every page."""
    docs.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        (docs / name).write_text(make(), encoding="utf-8")


def stale(docs: Path = DOCS) -> dict[str, str]:
    """The pages that differ from what the code says, each with the difference."""
    differences: dict[str, str] = {}
    for name, make in PAGES.items():
        file, wanted = docs / name, make()
        there = file.read_text(encoding="utf-8") if file.exists() else ""
        if there != wanted:
            differences[name] = _difference(there, wanted, name)
    return differences


def _difference(there: str, wanted: str, name: str) -> str:
    lines = list(difflib.unified_diff(there.splitlines(), wanted.splitlines(), f"docs/{name}", "the code", lineterm=""))
    left = len(lines) - _DIFF_LINES_MAX
    return "\n".join(lines[:_DIFF_LINES_MAX] + ([f"… and {left} more lines"] if left > 0 else []))


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or with `--check` say which are stale; the exit code says whether all is well."""
    if list(arguments) not in ([], ["--check"]):
        sys.stderr.write("usage: python -m paydesk.generated [--check]\n")
        return 2
    if not arguments:
        write()
        return 0
    differences = stale()
    for name, difference in differences.items():
        sys.stderr.write(f"docs/{name} is stale:\n{difference}\n\n")
    if differences:
        sys.stderr.write("Run `make generate` and commit what it writes.\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
