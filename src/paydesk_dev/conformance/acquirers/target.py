"""The acquirer under test: its name and its table in the acquirers file, from which its adapter is created."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paydesk.core.clock import Clock
from paydesk.engine.payments.acquirer import Acquirer
from paydesk.engine.payments.adapters.context import AdapterContext, AdapterRefused
from paydesk.engine.payments.http.options import tls_context
from paydesk.platform.process.node import StartRefused
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.service.acquirers import acquirers_of, create_acquirer, read_file

SIMULATOR = "simulator"
TLS_OPTIONS = ("ca_file", "client_certificate", "client_key")


@dataclass(frozen=True, slots=True)
class Target:
    """The acquirer under test; the `table` of the simulated one are its settings."""

    name: str
    table: Mapping[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str | None:
        """Return the address that a proxy can stand in for, None without one."""
        url, has_secret = self.table.get("url"), "secret" in self.table or "client_certificate" not in self.table
        return url if isinstance(url, str) and has_secret else None

    def tls(self) -> ssl.SSLContext:
        """Return the context of the proxy's own connections to an https address. Raises `StartRefused`."""
        ca_file, *client = (str(self.table.get(option, "")) for option in TLS_OPTIONS)
        try:
            return tls_context(ca_file, *client)
        except AdapterRefused as error:
            raise StartRefused(f"[acquirers.{self.name}]: {error}.") from None

    async def check(self) -> None:
        """Raise `StartRefused` unless the address answers an echo: the cases would all wait for it."""
        acquirer = self._created()
        try:
            fault = (await acquirer.echo()).fault
        finally:
            await acquirer.close()
        if fault is not None:
            raise StartRefused(f"The switch cannot be used: {fault}. Nothing else was tested.")

    def behind(self, url: str) -> Target:
        """Return the acquirer with another address, on this machine and without TLS."""
        table = {name: value for name, value in self.table.items() if name not in TLS_OPTIONS}
        return replace(self, table={**table, "url": url})

    def create(self, database: Database, clock: Clock) -> Acquirer:
        """Return its adapter. Raises `StartRefused`."""
        if self.name == SIMULATOR:
            return acquirers_of(Settings(acquirer=SIMULATOR, **self.table), database, clock).live[SIMULATOR]
        return self._created()

    def _created(self) -> Acquirer:
        where, unknown_after_seconds = f"[acquirers.{self.name}]", Settings().unknown_after_seconds
        return create_acquirer(where, self.name, self.table, AdapterContext(), unknown_after_seconds)


def find(name: str, settings: Settings) -> Target:
    """Return the acquirer of that name. Raises `StartRefused` if there is none."""
    if name == SIMULATOR:
        chosen = settings.model_dump(exclude_defaults=True)
        return Target(name, {option: value for option, value in chosen.items() if option.startswith(f"{SIMULATOR}_")})
    file = settings.acquirers_file
    tables = {} if file is None else read_file(Path(file)).acquirers
    if name not in tables:
        names = ", ".join((*tables, SIMULATOR))
        where = "PAYDESK_ACQUIRERS_FILE names no file" if file is None else f"{file} has no [acquirers.{name}]"
        raise StartRefused(f"{where}. There is: {names}.")
    return Target(name, tables[name])
