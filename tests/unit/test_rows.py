"""Builders of operations: what rows share, and what follows from a handler and a surface."""

from __future__ import annotations

from every_operation import OPERATIONS
from paydesk.core.errors import FORBIDDEN, NOT_FOUND, PROPERTY_VALUE
from paydesk.platform.operation import Answer, Call, Handled, ThreePhase
from paydesk.platform.rows import Rows

THINGS = Rows("application", "/v1/things", development=True, errors=(FORBIDDEN,))
THING = THINGS.below("/{id}", status=202, errors=(NOT_FOUND,))


async def act(_: Call) -> Handled:
    """Act on a thing: only once. A second request has no effect."""
    return Answer(200)


async def end(call: Call, _: object, outcome: Handled, /, *, late: bool) -> Handled:
    """End the action."""
    return await act(call) if late else outcome


def test_a_row_has_what_rows_share_at_its_path() -> None:
    """Also what it shares with the rows above."""
    row = THING.post("/act", "act", act)
    assert (row.method, row.path, row.surface, row.development, row.status) == (
        "POST",
        "/v1/things/{id}/act",
        "application",
        True,
        202,
    )


def test_a_row_adds_errors_and_replaces_other_fields() -> None:
    """Errors stay in the order of the checks, and the rows above keep theirs."""
    row = THING.delete("", "delete", act, status=204, errors=(PROPERTY_VALUE,))
    assert (row.status, row.errors) == (204, (FORBIDDEN, NOT_FOUND, PROPERTY_VALUE))
    assert THINGS.get("", "list", act).errors == (FORBIDDEN,)


def test_the_summary_is_the_first_sentence_of_the_handler() -> None:
    """In three phases, of the first one."""
    phases = ThreePhase(act, lambda _, intent: act(intent), end)
    assert [row.summary for row in (THINGS.post("", "act", act), THINGS.post("", "act", phases))] == [
        "Act on a thing"
    ] * 2
    assert THINGS.post("", "act", act, summary="Do it").summary == "Do it"
    assert [row.name for row in OPERATIONS if not row.summary] == []


def test_an_operation_that_takes_an_access_token_needs_a_scope() -> None:
    """By its method, unless it names one."""
    rows = (THINGS.get("", "list", act), THINGS.patch("", "change", act), THINGS.put("", "set", act, scope="read"))
    assert [row.scope for row in rows] == ["read", "write", "read"]
    assert Rows("device").get("/next", "next", act).scope is None
