"""Recorded requests for tests, without sending any."""

from __future__ import annotations

from typing import Any

from paydesk.core import ids
from paydesk.platform.http.recording import store as recorded_store
from paydesk.platform.http.recording.store import Recorded
from service import Service


async def record(service: Service, method: str, path: str, **fields: Any) -> str:
    """Record a request of the service's application; return its entry's id."""
    now_ms = service.clock.now_ms()
    row: dict[str, Any] = dict.fromkeys(Recorded._fields)
    row |= {"method": method, "path": path, "request_id": "own-id", "operation": "search_orders", "status": 200}
    row |= {"entry_id": ids.ordered_ulid(now_ms), "duration_us": 900, "replayed": 0, "created_ms": now_ms}
    row |= {"address": "127.0.0.1", "user_agent": "", "live": 0, "seller_id": service.seller_id}
    row |= {"application_id": service.scene.application.application_id, **fields}
    await service.database.write(lambda tx: recorded_store.add(tx, [Recorded(**row)]))
    return str(row["entry_id"])
