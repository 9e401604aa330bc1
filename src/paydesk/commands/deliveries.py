"""`paydesk deliveries`: the deliveries of notifications."""

from __future__ import annotations

from paydesk.commands.lists import add_list
from paydesk.commands.options import group

app = add_list(group("Deliveries of notifications."), "deliveries")
