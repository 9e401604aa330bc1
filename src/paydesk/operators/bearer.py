"""Who an operator's bearer token stands for. Looked up each time: a revoked token is refused at once, on every node."""

from __future__ import annotations

from paydesk.core.errors import UNAUTHORIZED
from paydesk.core.secrets import digest
from paydesk.operation import Caller
from paydesk.operators import store, tokens
from paydesk.storage.database import Database, Transaction


class OperatorBearers:
    """The look-up of operators' tokens in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def caller(self, token: str | None, now_ms: int) -> Caller:  # noqa: ARG002 - every look-up is told the time
        """The operator of the token. Raises `UNAUTHORIZED`."""
        if not token:
            raise UNAUTHORIZED.with_reason("no token", message="authorization value not present")
        if not tokens.PATTERN.fullmatch(token):
            raise UNAUTHORIZED.with_reason("not an operator's token")
        key = digest(token)

        async def work(tx: Transaction) -> store.Operator | None:
            return await store.by_digest(tx, key)

        operator = await self._database.read(work)
        if operator is None:
            raise UNAUTHORIZED.with_reason("operator's token unknown or revoked")
        return Caller(seller_id=0, operator_id=operator.operator_id, role=operator.role)
