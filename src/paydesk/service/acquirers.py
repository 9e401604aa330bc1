"""The acquirers of a service: those of the acquirers file, and the simulator."""

from __future__ import annotations

import tomllib
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import msgspec
import structlog
from msgspec import Meta

from paydesk.core.clock import Clock
from paydesk.core.money import CURRENCIES
from paydesk.engine.orders.routing import Routing, Rule
from paydesk.engine.payments.acquirer import Acquirer
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.adapters import unserved
from paydesk.engine.payments.adapters.context import AdapterContext, AdapterRefused, Create
from paydesk.engine.payments.adapters.options import private_text
from paydesk.engine.payments.http.options import create as create_http
from paydesk.engine.payments.simulator.acquirer import create_acquirers
from paydesk.engine.payments.simulator.faults import FaultSource
from paydesk.engine.payments.simulator.removals import Removals
from paydesk.platform.operator_events import OperatorEvent, Reporter
from paydesk.platform.process.node import StartRefused
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database

ENTRY_POINTS = "paydesk.acquirers"
BUILT_IN: Mapping[str, Create] = {"http": create_http}
RESERVED = ("none", "simulator")

log = structlog.get_logger("acquirer")

Name = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9_-]{0,31}$")]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    acquirers: dict[Name, dict[str, Any]] = {}
    rules: tuple[Rule, ...] = ()


def acquirers_of(
    settings: Settings,
    database: Database,
    clock: Clock,
    removals: Removals | None = None,
    reporter: Reporter | None = None,
    source: FaultSource | None = None,
) -> Acquirers:
    """Return the acquirers of live and test orders. Raises `StartRefused`. `source`: faults of the simulator."""
    try:
        simulated = create_acquirers(
            database,
            clock,
            acquirer=settings.acquirer,
            script=settings.simulator_script,
            seed=settings.simulator_seed,
            confirmations=settings.simulator_confirmations,
            removals=removals,
            source=source,
        )
    except ValueError as error:
        raise StartRefused(f"simulator_script: {error}.") from None
    path, default = settings.acquirers_file, settings.acquirer
    file = _File() if path is None else read_file(Path(path))
    live = dict(simulated.live)
    for name, table in file.acquirers.items():
        context = AdapterContext() if reporter is None else AdapterContext(_reporting(name, reporter, clock))
        live[name] = create_acquirer(
            f"{path}: [acquirers.{name}]", name, table, context, settings.unknown_after_seconds
        )
    if default != "none" and default not in live:
        where = "set `acquirers_file`" if path is None else f"add [acquirers.{default}] to {path}"
        raise StartRefused(f"acquirer is `{default}`, which is not configured: {where}.")
    for number, rule in enumerate(file.rules, 1):
        if rule.acquirer not in live:
            raise StartRefused(f"{path}: rule {number} names `{rule.acquirer}`: add [acquirers.{rule.acquirer}].")
        if rule.currency not in (None, *CURRENCIES):
            raise StartRefused(f"{path}: rule {number} has `{rule.currency}`: use one of {', '.join(CURRENCIES)}.")
    routing = Routing(None if default == "none" else default, file.rules)
    adapters = {name: table["adapter"] for name, table in file.acquirers.items()}
    return Acquirers(simulated.test, live, routing, adapters)


async def check_served(database: Database, acquirers: Acquirers) -> None:
    """Raise `StartRefused` if jobs are open at an acquirer that is not configured: money would stay unsettled."""
    missing = await database.read(lambda tx: unserved.find(tx, acquirers.live))
    if missing:
        listed = "; ".join(f"`{name}`: {count} {noun} of seller {seller}" for name, noun, seller, count in missing)
        raise StartRefused(
            f"Acquirers with open payments are not configured: {listed}. Add them to the file in PAYDESK_ACQUIRERS_FILE"
            " until these have ended; rules decide which one takes new orders."
        )


def warn_of_default(settings: Settings, acquirers: Acquirers) -> None:
    """Log that `inquiry_not_found_seconds` is set and used for acquirers that declare nothing, and what that risks."""
    names = [name for name, acquirer in acquirers.live.items() if acquirer.capabilities.not_found_final_seconds is None]
    if names and settings.acquirers_file and "inquiry_not_found_seconds" in settings.model_fields_set:
        log.warning(
            "setting_deprecated",
            setting="inquiry_not_found_seconds",
            acquirers=names,
            risk="a payment that takes longer to arrive is approved after its order has failed, and has to be reversed",
            advice="declare `not_found_final_seconds` of each acquirer in the acquirers_file",
        )


def read_file(path: Path) -> _File:
    """Return the acquirers and rules of the file. Raises `StartRefused`."""
    try:
        return msgspec.convert(tomllib.loads(private_text(path)), _File)
    except AdapterRefused as error:
        raise StartRefused(f"acquirers_file: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise StartRefused(f"{path} is not TOML: {error}.") from None
    except msgspec.ValidationError as error:
        raise StartRefused(f"{path}: {error}.") from None


def create_acquirer(
    where: str, name: str, table: Mapping[str, Any], context: AdapterContext, unknown_after_seconds: int
) -> Acquirer:
    """Return the acquirer of a table of the file. Raises `StartRefused`."""
    if name in RESERVED:
        raise StartRefused(f"{where}: `{name}` cannot be the name of an acquirer: choose another.")
    own = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if "adapter" not in table:
        raise StartRefused(f"{where}: `adapter` is missing.")
    adapter = str(table["adapter"])
    if adapter not in BUILT_IN and adapter not in own:
        raise StartRefused(
            f"{where}: no installed package has an adapter `{adapter}` (entry points `{ENTRY_POINTS}`); installed:"
            f" {', '.join(sorted({*BUILT_IN, *own}))}."
        )
    options = {option: value for option, value in table.items() if option != "adapter"}
    try:
        create: Create = BUILT_IN.get(adapter) or own[adapter].load()
        acquirer = create(name, options, context)
    except KeyError as error:
        raise StartRefused(f"{where}: `{error.args[0]}` is missing.") from None
    except ValueError as error:
        raise StartRefused(f"{where}: {error}.") from None
    except (ImportError, AttributeError) as error:
        raise StartRefused(f"{where}: the adapter `{adapter}` cannot be loaded: {error}.") from None
    fault = acquirer.capabilities.fault(unknown_after_seconds=unknown_after_seconds)
    if fault is not None:
        raise StartRefused(f"{where}: {fault}.")
    return acquirer


def _reporting(name: str, reporter: Reporter, clock: Clock) -> Callable[[bool, str], Awaitable[None]]:
    """Return the function that records for operators that the acquirer became unreachable, or reachable."""

    async def report(is_reachable: bool, reason: str) -> None:  # noqa: FBT001
        event = (
            OperatorEvent("acquirer_reachable", name, "The acquirer answers again, and payments are sent to it.")
            if is_reachable
            else OperatorEvent(
                "acquirer_unreachable", name, f"Nothing is sent to the acquirer: {reason}.", body={"reason": reason}
            )
        )
        await reporter.report_outage(event, clock.now_ms())

    return report
