"""`paydesk acquirers`: the acquirers of live orders, and whether they answer."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client.client import Service, segment
from paydesk.commands.client.command import command
from paydesk.commands.client.failure import Failure
from paydesk.commands.client.options import group, note, show
from paydesk.commands.tables.rows import add_rows

DIFFERENCE_SECONDS_WARNED = 60

app = add_rows(group("Acquirers, which take the payments of live orders."), "acquirers")


@command(app, "test", "paydesk acquirers test main", "paydesk acquirers test main --json")
def test(
    service: Service,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The acquirer, see `paydesk acquirers list`.")],
    *,
    as_json: bool,
) -> None:
    """Send an echo to an acquirer, which charges nothing; exits 1 if the answer is missing or cannot be trusted.

    It shows the difference of the clocks, which may be 300 s, and the id of the key that signed the request.
    """
    answer = service.post(f"/operator/v1/acquirers/{segment(name)}/test", {})
    show(answer, as_json=as_json)
    if abs(seconds := answer.get("clock_difference_seconds", 0)) >= DIFFERENCE_SECONDS_WARNED:
        note(f"The clocks differ by {abs(seconds):.0f} s; at 300 s every request is refused.")
    if not answer["reachable"]:
        raise Failure(f"{name} did not answer as it must: {answer['reason']}.")
