"""Faults planted in the virtual terminal, each of which a case of the conformance kit must find."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from paydesk.engine.device.schemas import Message
from paydesk_dev.http_client import Reply
from paydesk_dev.virtual import journal
from paydesk_dev.virtual.journal import AUTHORIZING, Entry, Journal
from paydesk_dev.virtual.scripts import scripts
from paydesk_dev.virtual.terminal.client import DeviceClient, Pace, ServiceUnavailable
from paydesk_dev.virtual.terminal.device import Device, result_of
from paydesk_dev.virtual.terminal.reporter import Reporter
from paydesk_dev.virtual.terminal.terminal import Terminal

Plant = Callable[[pytest.MonkeyPatch], None]


def charges_without_permit(patch: pytest.MonkeyPatch) -> None:
    """It asks for the permit and charges whatever the answer is."""

    async def authorize(self: Device, entry: Entry, presented: dict[str, Any], seq: int) -> bool:
        await self.pace.retry(partial(self.client.progress, entry.lease_id, seq, AUTHORIZING))
        return await _charge(self, entry, presented)

    patch.setattr(Device, "authorize", authorize)


def new_result_id_each_time(patch: pytest.MonkeyPatch) -> None:
    """It sends every repetition of a result under a new id."""
    send = Reporter._send

    async def send_anew(self: Reporter, entry: Entry) -> bool:
        return await send(self, msgspec.structs.replace(entry, result_id=str(uuid4())))

    patch.setattr(Reporter, "_send", send_anew)


def forgets_its_journal(patch: pytest.MonkeyPatch) -> None:
    """It starts with an empty journal."""
    read = journal.read

    def read_without_entries(path: Path) -> Journal | None:
        found = read(path)
        return None if found is None else Journal(path, found.terminal_id, found.device_token, found.script)

    patch.setattr(journal, "read", read_without_entries)


def charges_on_hold(patch: pytest.MonkeyPatch) -> None:
    """It charges an order after the verdict `hold`."""

    async def resume(self: Device, entry: Entry) -> bool:
        return await _charge(self, entry, scripts.parse("approve").presented(entry.order))

    patch.setattr(Device, "resume", resume)


def ignores_cancels(patch: pytest.MonkeyPatch) -> None:
    """It does nothing with a cancel message."""
    handle = Terminal._handle

    async def handle_others(self: Any, slot: Any, message: Message) -> None:
        if message.type != "cancel":
            await handle(self, slot, message)

    patch.setattr(Terminal, "_handle", handle_others)


def does_not_print(patch: pytest.MonkeyPatch) -> None:
    """It does nothing with a print message."""
    handle = Terminal._handle

    async def handle_others(self: Any, slot: Any, message: Message) -> None:
        if message.type != "print":
            await handle(self, slot, message)

    patch.setattr(Terminal, "_handle", handle_others)


def never_backs_off(patch: pytest.MonkeyPatch) -> None:
    """It repeats failed calls every 0.1 s."""
    patch.setattr(Pace, "pause", lambda _self, _failures: 0.1)


def keeps_its_stale_session(patch: pytest.MonkeyPatch) -> None:
    """It goes on with its boot id after 409 `stale_session`."""

    async def in_session(self: Any, *call: Any) -> Any:
        return await self._call(*call)

    patch.setattr(DeviceClient, "_in_session", in_session)


def ignores_the_permits_end(patch: pytest.MonkeyPatch) -> None:
    """It goes to the acquirer after `until`."""
    patch.setattr(DeviceClient, "is_before", lambda _self, _until: True)


def gives_up_on_404(patch: pytest.MonkeyPatch) -> None:
    """It takes a 404 to a result for the end."""
    from paydesk_dev.virtual.terminal import reporter

    patch.setattr(reporter, "_is_recorded", lambda reply: reply.status in (200, 404, 409))


def sends_track_data(patch: pytest.MonkeyPatch) -> None:
    """It sends the card's track in a field of its own."""

    async def progress(self: Any, lease_id: str, seq: int, step: str) -> Any:
        body: dict[str, Any] = {"seq": seq, "step": step}
        if step == "card_presented":
            body["card"] = ";5031433215406351=25121010000000000000?"
        return await self._in_session("POST", f"/leases/{lease_id}/progress", body)

    patch.setattr(DeviceClient, "progress", progress)


def takes_a_lost_charge_for_none(patch: pytest.MonkeyPatch) -> None:
    """It reports that nothing was charged when the acquirer's answer is lost."""
    authorize = DeviceClient.authorize

    async def authorize_once(self: DeviceClient, request: dict[str, Any]) -> Reply:
        try:
            return await authorize(self, request)
        except ServiceUnavailable:
            return Reply(400, b"", {})

    patch.setattr(DeviceClient, "authorize", authorize_once)


async def _charge(device: Device, entry: Entry, presented: dict[str, Any]) -> bool:
    request = {"payment_id": entry.order["payment_id"], "amount": entry.order["amount"], **presented}
    reply = await device.client.authorize(request)
    result = result_of(entry.order, presented, reply.body)
    return await device.conclude(msgspec.structs.replace(entry, presented=presented), result)


def keeps_its_boot_id(patch: pytest.MonkeyPatch) -> None:
    """Every start has the same boot id."""
    begin = DeviceClient.__init__

    def begin_again(self: DeviceClient, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        self.boot_id = "11111111-1111-4111-8111-111111111111"

    patch.setattr(DeviceClient, "__init__", begin_again)


FAULTS: dict[str, tuple[Plant, str]] = {
    plant.__name__: (plant, found_by)
    for plant, found_by in (
        (charges_without_permit, "cancel-wins"),
        (new_result_id_each_time, "result-answer-lost"),
        (forgets_its_journal, "restart-result-pending"),
        (charges_on_hold, "restart-hold"),
        (ignores_cancels, "cancel-before-permit"),
        (does_not_print, "print"),
        (never_backs_off, "service-away"),
        (keeps_its_stale_session, "stale-session"),
        (ignores_the_permits_end, "permit-late"),
        (takes_a_lost_charge_for_none, "charge-answer-lost"),
        (gives_up_on_404, "result-refused"),
        (sends_track_data, "no-card-data"),
        (keeps_its_boot_id, "restart-idle"),
    )
}
"""By name: how the fault is planted, and the case or rule that finds it."""
