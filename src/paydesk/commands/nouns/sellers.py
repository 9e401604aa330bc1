"""`paydesk sellers`: the merchants whose terminals take the orders."""

from __future__ import annotations

from paydesk.commands.client.options import group
from paydesk.commands.tables.rows import add_rows

app = add_rows(group("Sellers, the merchants whose terminals take the orders."), "sellers")
