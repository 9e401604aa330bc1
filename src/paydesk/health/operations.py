"""`/livez` and `/readyz`, for load balancers and supervisors: on every listener, for any `Host`."""

from __future__ import annotations

from typing import Annotated

from paydesk import __version__
from paydesk.core.errors import NOT_READY
from paydesk.core.response import Closed, constant
from paydesk.core.version import version
from paydesk.operation import Answer, Call, Handled, Operation

NO_STORE = (("cache-control", "no-store"),)


class Alive(Closed, frozen=True):
    """The answer of `/livez`."""

    status: Annotated[str, constant("alive")]


class Ready(Closed, frozen=True):
    """The answer of `/readyz`."""

    status: Annotated[str, constant("ready")]
    version: str
    """The version of this process with its commit, if that is known."""


ALIVE = Alive("alive")


async def livez(_: Call) -> Handled:
    """Return 200: a process that responds is alive."""
    return Answer(200, ALIVE, NO_STORE)


async def readyz(call: Call) -> Handled:
    """Return 200, or 503 with the reason."""
    return await call.shared.readiness.refusal() or Answer(200, Ready("ready", version()), NO_STORE)


OPERATIONS = (
    Operation(
        "GET",
        "/livez",
        "livez",
        "public",
        livez,
        "Check that the process is alive",
        transaction="none",
        answer=Alive,
        example=ALIVE,
        is_health_check=True,
        is_constant=True,
        description="Restart a process that does not respond to it. It does not check the database.",
    ),
    Operation(
        "GET",
        "/readyz",
        "readyz",
        "public",
        readyz,
        "Check that this node is ready for traffic",
        transaction="none",
        answer=Ready,
        example=Ready("ready", f"{__version__} (5f0c3ad18f1e)"),
        is_health_check=True,
        errors=(NOT_READY,),
        description=(
            "A node is ready if it can write to the database, finds its tables and keys, and has a clock that did not"
            " jump and agrees with the database's; otherwise `details` has the reason. It queries the database at most"
            " once a second and responds within a second."
        ),
    ),
)
