"""A simulation that is ended while it pairs its terminals."""

from __future__ import annotations

import asyncio

import pytest

from moved_time import moved_seconds
from operator_calls import operator
from paydesk.core.secrets import Secret
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk_dev.http_client import Client
from paydesk_dev.virtual.scripts import playlists
from paydesk_dev.virtual.simulation import Plan, Service, Simulation
from service import running
from skipped_waits import skipped_waits


class EndsWhenThrottled:
    """Ends the simulation between the service's answer and the pause that it asks for."""

    def __init__(self) -> None:
        self.stop, self.asked_seconds = asyncio.Event(), 0.0

    def busy(self, seconds: float) -> None:
        """Note the pause, and end the simulation."""
        self.asked_seconds = seconds
        self.stop.set()

    def progress(self, phase: str, done: int, total: int) -> None:
        """Nothing is shown."""

    def state(self, figures: dict[str, int]) -> None:
        """Nothing is shown."""

    def note(self, message: str) -> None:
        """Nothing is shown."""


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_what_is_ended_as_it_is_throttled_does_not_pause(database: Database) -> None:
    """Neither the pairing whose answer came just then, nor one after it; what was paired is removed at once."""
    watcher = EndsWhenThrottled()
    async with running(database, settings=Settings(pairings_per_minute_address=1), development=True) as service:
        owner = await operator(service)
        before = await owner.did("GET", "terminals")
        paired_with = Service(
            Client(service.session, service.base_url),
            Client(service.session, service.base_url, Secret(owner.token)),
        )
        plan = Plan(count=4, playlist=playlists.parse("approve"), seller_id=service.seller_id)
        skipped_before = moved_seconds()
        with skipped_waits(database):
            totals = await Simulation(paired_with, plan, watcher).run(watcher.stop)
        assert moved_seconds() - skipped_before < watcher.asked_seconds, "it has paused"
        assert await owner.did("GET", "terminals") == before
    assert totals["terminals"] <= 1
