"""`paydesk subscriptions`: where notifications are sent, and the secrets that sign them."""

from __future__ import annotations

from paydesk.commands.lists import add_list
from paydesk.commands.options import group
from paydesk.commands.rows import add_rows

app = add_rows(add_list(group("Subscriptions: where notifications are sent."), "subscriptions"), "subscriptions")
