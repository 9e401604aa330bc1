"""Generate the pages of the order lifecycle and the token lifecycle from their tables of moves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paydesk.engine.oauth import lifecycle
from paydesk.engine.orders import status
from tools.docs.markdown import page, table

_ORDERS_HEAD = """\
# Order lifecycle

<!-- Written by `make generate` from `engine/orders/status.py`; changes made here are lost. -->

`processed` means paid, `failed` means not paid; `status_detail` need not be read. `failed`, `canceled` and `refunded`
are final. Each transition increments `version` and sends its action to the webhook subscriptions."""

_ORDERS_TAIL = """\
*Before authorization*: until the terminal is permitted to authorize the payment at the acquirer. That permit is the
point of no return: of a concurrent cancel, expiry, result and permit, the first to be committed decides.

- **Before** it no card was charged. A cancel, the cancel key and the expiry each end the order as `canceled`.
- **After** it only the outcome of the payment ends the order. A cancel gets 202 and has no effect, or 409 once the
  [outcome is unknown](unknown-outcomes.md), `check_on_terminal`. The order does not expire.
- **A provisional approval** [waits for the card](acquirers.md#a-sale-with-the-third-message): the order is
  `at_terminal` until the terminal's result, and `processed` before the acquirer confirms. Without a result it is
  `check_on_terminal` until the payment is reversed.
- **A late approval**, for an order that was paid or ended otherwise, does not change it. It is reversed.
- **A refund** changes a paid order only when [the acquirer has confirmed it](refunds.md).

With `order_statuses = "extended"` detail `expired` is shown as status `expired`, and `check_on_terminal` as
`action_required`, in actions too. The states of payment intents: [Migrate](migrate.md#states)."""

_TOKENS_HEAD = """\
# Token lifecycle

<!-- Written by `make generate` from `engine/oauth/lifecycle.py`; changes made here are lost. -->

A seller's consent creates a code, which is exchanged for the first tokens; every refresh issues the next ones. All are
one token family and are revoked together."""

_TOKENS_TAIL = """\
Any other event changes nothing. Requests of a suspended seller or application, or with a redirect URI,
verifier or scope that doesn't match, are refused without a transition. Ended families are deleted later:
[Retention](retention.md)."""

_NONE = "none"
_DETAILS_MAX = 5


def page_of_orders() -> str:
    """Return docs/order-lifecycle.md: the diagram, the states and the moves."""
    edges = (
        (source, target, move.name)
        for move in status.MOVES
        for source in _statuses(move.sources) or ["[*]"]
        for target in _statuses(move.targets) or [source]
    )
    return page(
        _ORDERS_HEAD,
        _diagram(edges, status.FINAL),
        "## States",
        table(
            ("status", "status_detail", "payment's status_detail"),
            _rows(),
        ),
        "## Transitions",
        table(("Transition", "From", "To", "By", "Action"), map(_move, status.MOVES)),
        _ORDERS_TAIL,
    )


def _rows() -> Iterable[tuple[str, str, str]]:
    """Yield a row for each status and detail, with all details of the payment."""
    by_order: dict[tuple[str, str], list[str]] = {}
    for state in status.STATES:
        by_order.setdefault((state.status, state.detail), []).append(f"`{state.payment_detail}`")
    for (name, detail), of_payment in by_order.items():
        yield f"`{name}`", f"`{detail}`", ", ".join(of_payment)


def _diagram(moves: Iterable[tuple[str, str, str]], final: Iterable[str]) -> str:
    """Return the diagram: one arrow for each source and target, with the names of all its moves."""
    edges: dict[tuple[str, str], list[str]] = {}
    for source, target, name in moves:
        edges.setdefault((source, target), []).append(name)
    arrows = [f"    {source} --> {target}: {', '.join(names)}" for (source, target), names in edges.items()]
    ends = [f"    {state} --> [*]" for state in final]
    return "\n".join(("```mermaid", "stateDiagram-v2", *arrows, *ends, "```"))


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
    return "; ".join(f"{name}: {_any_of(details)}" for name, details in by_status.items())


def _any_of(details: Sequence[str]) -> str:
    """Return the details; the reasons of a failure are in the table of states."""
    return ", ".join(details) if len(details) < _DETAILS_MAX else "any reason"


def page_of_tokens() -> str:
    """Return docs/token-lifecycle.md: the diagram, the states and the moves."""
    edges = (
        (source, move.target.name if move.target is not None else source, move.name)
        for move in lifecycle.MOVES
        for source in [state.name for state in move.sources] or ["[*]"]
    )
    return page(
        _TOKENS_HEAD,
        _diagram(edges, [lifecycle.WITHDRAWN.name]),
        "## States",
        table(("State", "Valid"), ((f"`{state.name}`", state.valid) for state in lifecycle.STATES)),
        "## Transitions",
        table(("Transition", "From", "To", "When", "Response", "Reason in the log"), map(_token_move, lifecycle.MOVES)),
        _TOKENS_TAIL,
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
