"""The databases' own checks of their files and indexes. They have no shared form."""

from __future__ import annotations

from paydesk.invariants.rule import Rule

RULES = {
    "sqlite": (
        Rule(
            "file_integrity",
            "{0}",
            "SELECT NULL, 'the file', integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
        ),
    ),
    "postgres": (
        Rule(
            "index_integrity",
            "is invalid: run REINDEX",
            "SELECT NULL, CAST(CAST(indexrelid AS regclass) AS text) FROM pg_index WHERE NOT indisvalid",
        ),
        Rule(
            "file_integrity",
            "{0} pages had a wrong checksum",
            """
            SELECT NULL, datname, checksum_failures FROM pg_stat_database
             WHERE datname = current_database() AND checksum_failures > 0""",
        ),
    ),
}
