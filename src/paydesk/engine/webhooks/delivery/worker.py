"""The worker that delivers notifications: those that are due, and those that operators send again."""

from __future__ import annotations

import asyncio

from paydesk.core.worker import WorkerContext
from paydesk.jobs import JobWorker, run_together
from paydesk.webhooks import outcome_store
from paydesk.webhooks.delivery import DeliveryJob
from paydesk.webhooks.resending import ResendJob
from paydesk.webhooks.sending import Sender


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Deliver until `stop` is set; then deliveries in progress have 3 s to end."""
    if context.database.name == "sqlite":
        # No other process has the file, so these are claims of one that was killed.
        await context.database.write(outcome_store.release_all)
    async with Sender.of(context.settings, loopback_allowed=context.loopback_allowed) as sender:
        job = DeliveryJob(context, sender)
        await run_together(stop, JobWorker(context, job), JobWorker(context, ResendJob(context, job)))
