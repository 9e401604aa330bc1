"""The development kit's tables have a migration history of their own."""

from __future__ import annotations

import pytest

from paydesk.platform.storage.database import Database, Row
from paydesk.platform.storage.migrate import migrate, pending, shipped
from paydesk_dev.dev.fresh import KITS_HISTORY, MIGRATIONS

SHIPPED = shipped(MIGRATIONS)
NAMES = [one.name for one in SHIPPED]
# No form that both databases share.
COLUMNS = {
    "sqlite": """SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info('demo_inbox') ORDER BY cid""",
    "postgres": """SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns
                    WHERE table_name = 'demo_inbox' ORDER BY ordinal_position""",
}
OF_PAYDESK = ("DROP INDEX demo_inbox_application", "ALTER TABLE demo_inbox DROP COLUMN application_id")
"""What the kit's history adds to the demo inbox of Paydesk's own history."""


async def _columns(database: Database) -> list[Row]:
    return await database.read(lambda tx: tx.all(COLUMNS[database.name]))


@pytest.mark.on_postgres
async def test_it_makes_what_is_missing_and_nothing_twice(database: Database) -> None:
    """So far Paydesk's own history makes the demo inbox; of a later one that doesn't, the kit makes the same."""
    columns = await _columns(database)
    for statements in (OF_PAYDESK, ("DROP TABLE demo_inbox",)):
        for statement in (*statements, f"DELETE FROM {KITS_HISTORY}"):
            await database.write(lambda tx, sql=statement: tx.run(sql))  # type: ignore[misc]
        assert await migrate(database, 1, SHIPPED, KITS_HISTORY) == NAMES
        assert await migrate(database, 1, SHIPPED, KITS_HISTORY) == []
        assert await _columns(database) == columns
        assert await pending(database) == []
