"""`/livez` and `/readyz`, for load balancers and supervisors: on every listener, for any `Host`."""

from __future__ import annotations

from typing import Any

from paydesk.health.errors import NOT_READY
from paydesk.operation import Answer, Call, Handled, Operation

NO_STORE = (("cache-control", "no-store"),)
ALIVE, READY = {"status": "alive"}, {"status": "ready"}


async def livez(_: Call) -> Handled:
    """Return 200: a process that responds is alive."""
    return Answer(200, ALIVE, NO_STORE)


async def readyz(call: Call) -> Handled:
    """Return 200, or 503 with the reason."""
    return await call.shared.readiness.refusal() or Answer(200, READY, NO_STORE)


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
        "Check that the process is alive",
        "public",
        livez,
        transaction="none",
        answer=_answer(ALIVE),
        example=ALIVE,
        is_health_check=True,
        is_constant=True,
        description="Restart a process that does not respond to it. It does not check the database.",
    ),
    Operation(
        "GET",
        "/readyz",
        "readyz",
        "Check that this node is ready for traffic",
        "public",
        readyz,
        transaction="none",
        answer=_answer(READY),
        example=READY,
        is_health_check=True,
        errors=(NOT_READY,),
        description=(
            "A node is ready if it can write to the database, finds its tables and keys, and has a clock that did not"
            " jump and agrees with the database's; otherwise `details` has the reason. It queries the database at most"
            " once a second and responds within a second."
        ),
    ),
)
