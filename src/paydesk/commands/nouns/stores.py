"""`paydesk stores` and `pos`: the stores of sellers, and their points of sale."""

from __future__ import annotations

from paydesk.commands.client.options import group
from paydesk.commands.tables.rows import add_rows

stores = add_rows(group("Stores of sellers."), "stores")
pos = add_rows(group("Points of sale in stores; at each, one terminal takes orders."), "pos")
