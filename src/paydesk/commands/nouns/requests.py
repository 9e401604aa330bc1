"""`paydesk requests`: the last requests of applications and terminals."""

from __future__ import annotations

from paydesk.commands.client.options import group
from paydesk.commands.tables.rows import add_rows

app = add_rows(group("The last requests of applications and terminals, and how they were answered."), "requests")
