"""The operation and words of the audit trail."""

from __future__ import annotations

from dataclasses import replace

from paydesk.core.errors import FORBIDDEN
from paydesk.core.ids import ULID_PATTERN
from paydesk.operators.audit_trail import handlers
from paydesk.operators.noun import Noun
from paydesk.operators.words import Column, Words

_ENTRY = Noun("audit/{entry_id}", "entry", f"^{ULID_PATTERN}$", handlers.AuditEntry, FORBIDDEN)
LIST = replace(
    _ENTRY.listing(
        handlers.PAGES,
        words=Words(
            "Audit trail",
            says="Newest first: which operator changed what, when and from where.",
            columns=(
                Column("created_date", "Time", "time", style="nowrap when", at=1),
                Column("name", "Operator", "author", style="who", at=2),
                Column("action", "What", "did", style="did", at=3),
                Column("changed", "Values", "changes", style="changed", at=6),
                Column("address", "From", "address", style="mono r faint from address", at=5),
                Column("subject", at=4),
            ),
            limit=50,
            examples=("", "--subject ORD01J67CQQH5904WDBVZEM4JMEP3", "--operator 01J67CQQH5904WDBVZEM4JMEP3 --json"),
        ),
    ),
    summary="List the audit trail",
)
OPERATIONS = (LIST,)
