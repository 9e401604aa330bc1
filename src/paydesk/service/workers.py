"""The background workers, and the loop that restarts them until the node stops."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog

from paydesk.engine.device.polling import missed_wakeups, presence_writing
from paydesk.engine.events import relay
from paydesk.engine.orders import expiry
from paydesk.engine.payments import confirmations, inquiries, reversals
from paydesk.engine.payments.refunds import attempts as refunds
from paydesk.engine.printing import expiry as print_expiry
from paydesk.engine.webhooks.delivery import worker as webhooks
from paydesk.operators.attention import notifying
from paydesk.platform.health import clock as health_clock
from paydesk.platform.health import statistics
from paydesk.platform.http.recording import worker as request_recording
from paydesk.platform.metrics import process
from paydesk.platform.storage.database import Locked, Unavailable
from paydesk.platform.worker import Worker, WorkerContext
from paydesk.service import retention

STOP_SECONDS_MAX = 4.0
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.2, 15.0
BACKOFF_RESET_SECONDS = 60.0

log = structlog.get_logger("workers")

WORKERS = (
    Worker("orders.expiry", expiry.EXPIRY.run),
    Worker("orders.unknown_outcome", expiry.UNKNOWN_OUTCOME.run),
    Worker("orders.cancel_timeout", expiry.CANCEL_TIMEOUT.run),
    Worker("printing.expiry", print_expiry.run),
    Worker("payments.refunds", refunds.JOB.run),
    Worker("payments.confirmations", confirmations.JOB.run),
    Worker("payments.inquiries", inquiries.JOB.run),
    Worker("payments.reversals", reversals.JOB.run),
    Worker("device.missed_wakeups", missed_wakeups.run),
    Worker("device.presence", presence_writing.run),
    Worker("storage.statistics", statistics.run),  # the name in logs stays
    Worker("webhooks.delivery", webhooks.run),
    Worker("operators.notifying", notifying.run),
    Worker("events.relay", relay.run),
    Worker("http.request_recording", request_recording.run),
    Worker("retention", retention.run),
    Worker("health.clock", health_clock.run),
    Worker("metrics.process", process.run),
)


async def run_all(context: WorkerContext, stop: asyncio.Event, workers: tuple[Worker, ...] = WORKERS) -> None:
    """Run the workers until `stop` is set; cancel those that have not ended after `STOP_SECONDS_MAX`."""
    tasks = [asyncio.create_task(supervise(worker, context, stop), name=worker.name) for worker in workers]
    try:
        await stop.wait()
        context.database.signals.stop()
        await asyncio.wait(tasks, timeout=STOP_SECONDS_MAX)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def supervise(worker: Worker, context: WorkerContext, stop: asyncio.Event) -> None:
    """Run a worker until `stop` is set; restart it after a failure, with a growing pause."""
    loop, pause = asyncio.get_running_loop(), PAUSE_SECONDS_MIN
    while not stop.is_set():
        started = loop.time()
        try:
            await worker.run(context, stop)
        except Unavailable as error:
            log.warning("worker_waiting", worker=worker.name, reason=str(error))
        except Locked:
            # Another node's worker or a request has locked the row; the worker tries again.
            log.debug("worker_lock_conflict", worker=worker.name)
            pause = PAUSE_SECONDS_MIN
        except Exception:
            log.exception("worker_failed", worker=worker.name)
        if loop.time() - started > BACKOFF_RESET_SECONDS:
            pause = PAUSE_SECONDS_MIN
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
        pause = min(pause * 2, PAUSE_SECONDS_MAX)
