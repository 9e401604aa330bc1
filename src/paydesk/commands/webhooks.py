"""`paydesk webhooks`: the group of the commands around notifications."""

from __future__ import annotations

from paydesk.commands import webhook_faults
from paydesk.commands.options import group

app = group("Notifications to applications.")
app.add_typer(webhook_faults.app, name="fault")
