"""`paydesk subscriptions`: where notifications are sent, and the secrets that sign them."""

from __future__ import annotations

from paydesk.commands.client.options import group
from paydesk.commands.tables.rows import add_rows

app = add_rows(group("Subscriptions: where notifications are sent."), "subscriptions")
