"""The worker that delivers notifications: those that are due, and those that operators send again."""

from __future__ import annotations

import asyncio

from paydesk.engine.webhooks.delivery import outcome_store
from paydesk.engine.webhooks.delivery.job import DeliveryJob
from paydesk.engine.webhooks.delivery.resending import ResendJob
from paydesk.engine.webhooks.delivery.sending import Sender
from paydesk.platform.jobs import JobWorker, run_together
from paydesk.platform.worker import WorkerContext


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Deliver until `stop` is set; then deliveries in progress have 3 s to end."""
    if context.database.name == "sqlite":
        # No other process has the file, so these are claims of one that was killed.
        await context.database.write(outcome_store.release_all)
    async with Sender.of(context.settings, loopback_allowed=context.loopback_allowed) as sender:
        job = DeliveryJob(context, sender)
        await run_together(stop, JobWorker(context, job), JobWorker(context, ResendJob(context, job)))
