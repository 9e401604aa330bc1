"""A database that is away: 503, at once and as JSON, and all is well again when it comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

from paydesk.storage.connect import open_database
from paydesk.storage.sqlite import SqliteDatabase
from postgres_server import PostgresServer
from service import Reply, Service, order_body, running


async def _refused(service: Service) -> bool:
    """Whether every kind of operation says that the service is not available."""
    replies = [
        await service.create(await _known_terminal(service)),
        await service.request("GET", "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3"),
        await service.request("GET", "/terminals/v1/list"),
    ]
    return all(_is_unavailable(reply) for reply in replies)
