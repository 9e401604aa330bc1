"""The pages on the lifecycle of orders and of token families, generated from the code's transition tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from paydesk.docs.tables import table
from paydesk.oauth import lifecycle
from paydesk.orders import status

_LIFECYCLE_HEAD = """\
# The order lifecycle

<!-- Written by `make generate` from `orders/status.py`; changes made here are lost. -->

`failed`, `canceled` and `refunded` are final. Each transition increments `version` by one and sends its action to the
subscribed applications."""

_LIFECYCLE_TAIL = """\
The *authorization permit* lets the terminal send the payment to the acquirer; it is the point of no return. Of a
concurrent cancel, expiry and result, the first one written decides.

- **Before the authorization permit** no card was charged. A cancel request, the cancel key on the terminal and the
  expiry each end the order as `canceled`; its payment's `status_detail` says which.
- **After the authorization permit** only the outcome ends the order, and it does not expire. A cancel request is
  answered 202 but has no effect; in `check_on_terminal` it is answered 409.
- **`check_on_terminal`** is an order with an unknown outcome. It becomes `processed` or `failed`:
  [When the outcome is unknown](unknown-outcomes.md).
- **A late approval**, of an order that has ended otherwise or is already paid, does not change the order. It is
  reversed at the acquirer.
- **A refund** changes a paid order only when the acquirer has confirmed it: [Refund a payment](refunds.md).

With `order_statuses = "extended"` two states and their actions have other names: the detail `expired` has the status
`expired`, and `check_on_terminal` the status `action_required`. The transitions are the same. For the states of payment
intents, of the earlier interface, see [Migrate from payment intents](migrate.md#states)."""

_TOKENS_HEAD = """\
# The token family lifecycle

<!-- Written by `make generate` from `oauth/lifecycle.py`; changes made here are lost. -->

A seller's consent issues a code, the code is exchanged for the first tokens, and every refresh issues the next
generation. All of them are one token family and are revoked together. An application may not have the newest token,
because a response was lost or two of its processes refreshed at once. So a used refresh token replayed within the grace
period returns the same successor; later reuse counts as theft."""

_NONE = "none"


def page_of_orders() -> str:
    """Return the page on orders: the diagram, the states and the transitions."""
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
            "## Transitions",
            "",
            *table(("Transition", "From", "To", "By", "Action"), map(_move, status.MOVES)),
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
    """Yield the edges of a diagram, each with the names of all transitions from its source to its target."""
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
        move.by + (", before the authorization permit" if move.before_authorization else ""),
        f"`{move.action}`",
    )


def _states(states: Iterable[status.State]) -> str:
    by_status: dict[str, list[str]] = {}
    for state in states:
        by_status.setdefault(state.status, []).append(f"`{state.payment_detail}`")
    return "; ".join(f"{name}: {', '.join(details)}" for name, details in by_status.items())


def page_of_tokens() -> str:
    """Return the page on token families: the diagram, the states and the transitions."""
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
            *table(("State", "Valid"), ((f"`{one.name}`", one.good) for one in lifecycle.STATES)),
            "",
            "## Transitions",
            "",
            *table(
                ("Transition", "From", "To", "When the presented token", "Answer", "Reason in the log"),
                map(_token_move, lifecycle.MOVES),
            ),
            "",
            "Other requests change nothing. Suspended sellers and applications, and a different redirect URI, verifier",
            "or scope, are refused before. For how long ended families are kept, see [retention](retention.md).",
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
