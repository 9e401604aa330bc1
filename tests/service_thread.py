"""A service in a separate thread, for clients that are not asynchronous."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import refund_scene
from ending_thread import EndingThread
from paydesk.core.clock import MovableClock
from paydesk.operators.accounts import credentials
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from service import REDIRECT_URI, Service, running

START_SECONDS_MAX = 30.0
TERMINALS = 20
_DEVICE = (
    "device_hello",
    "device_acknowledge",
    "device_progress",
    "device_authorize",
    "device_cancel_result",
    "device_result",
)


@dataclass(frozen=True)
class Served:
    """The URL of the service and the credentials of its callers."""

    base_url: str
    access_token: str
    operator_token: str
    device_token: str
    boot_id: str
    lease_id: str
    order_id: str
    paid_id: str
    client_id: str
    known: dict[str, Any]
    """Free terminals, and by operation valid values of body fields."""


class _Thread(EndingThread):
    def __init__(self, database_url: str, settings: Settings) -> None:
        super().__init__("service")
        self._database_url, self._settings = database_url, settings
        self.served: Served | None = None

    async def serve(self) -> None:
        """Serve on the database."""
        database = await open_database(self._database_url)
        try:
            async with running(database, clock=MovableClock(), settings=self._settings, development=True) as service:
                self.served = await _served(service)
                self.ready.set()
                await self.stopping.wait()
        finally:
            await database.close()


async def _served(service: Service) -> Served:
    operator = credentials.new_token()
    now_ms = service.clock.now_ms()
    await service.database.write(lambda tx: credentials.add_operator(tx, operator, "anna", "owner", now_ms))
    device = await service.device(await service.terminal())
    order_id = (await service.create(device.terminal)).body["id"]
    paid_id = await refund_scene.paid(service)
    boot = {"boot_id": device.boot_id}
    known = {
        "terminals": [(await service.terminal()).id for _ in range(TERMINALS)],
        "payment_id": f"PAY{paid_id[3:]}",
        "bodies": {**dict.fromkeys(_DEVICE, boot), **await _tokens(service), **_parties(service)},
    }
    return Served(
        service.base_url,
        service.access_token,
        operator.reveal(),
        device.terminal.token,
        device.boot_id,
        order_id[3:],
        order_id,
        paid_id,
        str(service.scene.application.application_id),
        known,
    )


async def _tokens(service: Service) -> dict[str, dict[str, str]]:
    """Return the application's credentials, and separate tokens to refresh, introspect and revoke."""
    scene = service.scene
    made = [await scene.answer(scene.exchange(await scene.code())) for _ in range(2)]
    return {
        "create_token": {
            **scene.credentials(),
            "refresh_token": made[0]["refresh_token"],
            "redirect_uri": REDIRECT_URI,
            "test_token": "false",
        },
        "introspect_token": {**scene.credentials(), "token": made[0]["access_token"]},
        "revoke_token": {**scene.credentials(), "token": made[1]["refresh_token"]},
    }


def _parties(service: Service) -> dict[str, dict[str, Any]]:
    """Return the seller and the application, for the operations of operators."""
    seller_id, client_id = service.seller_id, service.scene.application.application_id
    return {
        "operator_create_applications": {"redirect_uris": [REDIRECT_URI]},
        "operator_create_codes": {"client_id": client_id, "user_id": seller_id, "redirect_uri": REDIRECT_URI},
        "operator_create_subscriptions": {"client_id": client_id, "url": f"{service.base_url}/demo/inbox"},
        "operator_create_stores": {"seller_id": seller_id},
    }


@contextmanager
def serving(database_url: str, settings: Settings) -> Iterator[Served]:
    """Serve until the end of the block, with the development operations; raise the service's exception."""
    thread = _Thread(database_url, settings)
    thread.start()
    try:
        assert thread.ready.wait(START_SECONDS_MAX), "the service did not start"
        if thread.served is not None:
            yield thread.served
    finally:
        thread.end()
