"""Requests of an operator, and the audit trail."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from paydesk.operators.accounts import credentials
from service import Reply, Service


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of a running service with a token."""

    service: Service
    operator_id: str
    token: str

    async def ask(self, method: str, path: str, body: Any = None, *, data: bytes | None = None) -> Reply:
        """Send a request below `/operator/v1/`."""
        return await self.service.request(method, f"/operator/v1/{path}", body, token=self.token, key=None, data=data)

    async def did(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Return the body of the response to a request that must succeed."""
        reply = await self.ask(method, path, body)
        assert reply.status in (200, 201), (reply.status, reply.body)
        document: dict[str, Any] = reply.body
        return document

    async def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """Return status and code of a request that must be refused."""
        reply = await self.ask(method, path, body)
        assert reply.status >= 400, reply.body
        return reply.status, reply.code


@dataclass(frozen=True, slots=True)
class Audited:
    """An entry of the audit trail."""

    operator_id: str
    action: str
    subject: str
    address: str
    before: Any
    after: Any


async def operator(service: Service, role: str = "owner") -> Operator:
    """Add an operator."""
    token, now_ms = credentials.new_token(), service.clock.now_ms()
    operator_id = await service.database.write(
        lambda tx: credentials.add_operator(tx, token, f"a {role}", role, now_ms)
    )
    return Operator(service, operator_id, token.reveal())


async def audited(service: Service) -> list[Audited]:
    """Return the audit trail, oldest first."""
    rows = await service.database.read(
        lambda tx: tx.all(
            "SELECT operator_id, action, subject, address, before, after FROM operator_audit"
            " ORDER BY created_ms, entry_id"
        )
    )
    return [Audited(*row[:4], *(json.loads(text) if text else None for text in row[4:])) for row in rows]
