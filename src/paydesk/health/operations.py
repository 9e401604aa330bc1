"""`/livez` and `/readyz`, for load balancers and supervisors: on every listener, whatever `Host` they send."""

from __future__ import annotations

from typing import Any

from paydesk.health.errors import NOT_READY
from paydesk.health.readiness import Readiness
from paydesk.operation import Answer, Call, Handled, Operation

NOT_KEPT = (("cache-control", "no-store"),)
ALIVE, READY = {"status": "alive"}, {"status": "ready"}


async def livez(_: Call) -> Handled:
    """Whoever can answer is alive."""
    return Answer(200, ALIVE, NOT_KEPT)


async def readyz(call: Call) -> Handled:
    """Ready, or refused with the reason."""
    readiness: Readiness = call.state["readiness"]
    return await readiness.refusal() or Answer(200, READY, NOT_KEPT)


def _answer(example: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["status"],
        "properties": {"status": {"type": "string", "const": example["status"]}},
        "additionalProperties": False,
    }


OPERATIONS = (
    Operation(
        "GET",
        "/livez",
        "livez",
        "Whether the process turns",
        "public",
        livez,
        transaction="none",
        answer=_answer(ALIVE),
        example=ALIVE,
        is_health_check=True,
        is_constant=True,
        description="Restart a process that does not answer it. It says nothing about the database.",
    ),
    Operation(
        "GET",
        "/readyz",
        "readyz",
        "Whether this node may be given traffic",
        "public",
        readyz,
        transaction="none",
        answer=_answer(READY),
        example=READY,
        is_health_check=True,
        errors=(NOT_READY,),
        description=(
            "A node is ready when it reaches the database, can write there, finds its own tables and keys, and has a"
            " clock that did not jump and agrees with the database's; `details` says what is missing. It asks the"
            " database at most once a second and answers within one."
        ),
    ),
)
