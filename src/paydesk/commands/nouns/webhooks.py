"""`paydesk webhooks`: notifications to applications."""

from __future__ import annotations

from paydesk.commands.client.options import group
from paydesk.commands.tables.rows import add_rows

app = add_rows(group("Notifications to applications."), "webhooks")
