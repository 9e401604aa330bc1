"""`/livez` and `/readyz`, for load balancers and supervisors: on every listener, for any `Host`."""

from __future__ import annotations

from typing import Annotated

from paydesk import __version__
from paydesk.core.errors import NOT_READY
from paydesk.core.response import Closed, constant
from paydesk.core.version import version
from paydesk.platform.health.readiness import Readiness
from paydesk.platform.operation import Answer, Call, Handled
from paydesk.platform.rows import Rows

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
    """Check that the process is alive: it is if it responds."""
    return Answer(200, ALIVE, NO_STORE)


async def readyz(call: Call) -> Handled:
    """Check that this node is ready for traffic: 200, or 503 with the reason."""
    return await call.shared.objects[Readiness].refusal() or Answer(200, Ready("ready", version()), NO_STORE)


_CHECKS = Rows("public", transaction="none", is_health_check=True)

OPERATIONS = (
    _CHECKS.get(
        "/livez",
        "livez",
        livez,
        answer=Alive,
        example=ALIVE,
        is_constant=True,
        description="Restart a process that does not respond to it. It does not check the database.",
    ),
    _CHECKS.get(
        "/readyz",
        "readyz",
        readyz,
        answer=Ready,
        example=Ready("ready", f"{__version__} (5f0c3ad18f1e)"),
        errors=(NOT_READY,),
        description=(
            "A node is ready if it can write to the database, finds its tables and keys, and has a clock that did not"
            " jump and agrees with the database's; otherwise `details` has the reason. It queries the database at most"
            " once a second and responds within a second."
        ),
    ),
)
