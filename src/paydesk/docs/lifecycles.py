"""The pages of lives, drawn from the tables that the code goes by: an order's, and a family of tokens'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from paydesk.docs.tables import table
from paydesk.oauth import lifecycle
from paydesk.orders import status

_LIFECYCLE_HEAD = """\
# The life of an order

<!-- Written by `make generate` from `orders/status.py`; changes made here are lost. -->

`processed` means paid, `failed` means not paid. `failed`, `canceled` and `refunded` are final. Each move increases
`version` by one and is notified to the subscribed applications with its action."""

_LIFECYCLE_TAIL = """\
A move marked *before authorization* is possible only until authorization is permitted: that is the point of no
return. When a cancel, the expiry and a result coincide, the first one committed counts.

- **Before authorization** no card was charged. A cancel, the red key at the terminal and the expiry each end the
  order as `canceled`; its payment's `status_detail` says which.
- **After authorization is permitted** only the outcome ends the order. A cancel request is answered with 202,
  recorded, and has no effect; while the outcome is unknown the response is 409. Nothing expires.
- **`check_on_terminal`** is an order with an unknown outcome. It ends as `processed` or `failed`: [When the outcome
  is unknown](unknown-outcomes.md).
- **A late approval**, of an order that has ended otherwise or is already paid, does not change the order. It is
  reversed at the acquirer.
- **A refund** moves a paid order only once the acquirer has confirmed it: [Refund a payment](refunds.md).

With `order_statuses = "extended"` two states have statuses and actions of their own: detail `expired` is status
`expired`, `check_on_terminal` is `action_required`. The moves are the same. For the states of payment intents, the
earlier interface, see [Migrate from payment intents](migrate.md#states)."""

_TOKENS_HEAD = """\
# The life of a family of tokens

<!-- Written by `make generate` from `oauth/lifecycle.py`; changes made here are lost. -->

A seller's consent gives a code, the code is exchanged for the first tokens, and every refresh makes the next
generation: all of them are one family, and end together. An application can be wrong about which token is the newest,
because an answer was lost or two of its processes refreshed at once. So a used refresh token goes on answering the
tokens that were made of it; only much later it means that somebody else has it too."""

_NONE = "none"


def page_of_orders() -> str:
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
            *table(
                ("status", "status_detail", "payment's status_detail"),
                ((f"`{state.status}`", f"`{state.detail}`", f"`{state.payment_detail}`") for state in status.STATES),
            ),
            "",
            "## Moves",
            "",
            *table(("Move", "From", "To", "By", "Action"), map(_move, status.MOVES)),
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
        move.by + (", before authorization" if move.before_authorization else ""),
        f"`{move.action}`",
    )


def _states(states: Iterable[status.State]) -> str:
    by_status: dict[str, list[str]] = {}
    for state in states:
        by_status.setdefault(state.status, []).append(f"`{state.payment_detail}`")
    return "; ".join(f"{name}: {', '.join(details)}" for name, details in by_status.items())


def page_of_tokens() -> str:
    """The life of a family of tokens: the diagram, the states and the moves."""
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
            *table(("State", "Good for something"), ((f"`{one.name}`", one.good) for one in lifecycle.STATES)),
            "",
            "## Moves",
            "",
            *table(
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
