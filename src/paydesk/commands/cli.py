"""The command line `paydesk`. The modules of a command are imported when it is used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from paydesk.commands.client.failure import Failure, WrongUsage
from paydesk.commands.client.options import harmless, top

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "serve": ("Run the service in production.", "paydesk.commands.local.serve"),
    "migrate": ("Migrate the database to this version.", "paydesk.commands.local.maintenance"),
    "doctor": (
        "Check the integrity of the database, or an address of the service; exits 1 if a problem is found.",
        "paydesk.commands.local.maintenance",
    ),
    "attention": ("List what needs a person, the most urgent first.", "paydesk.commands.nouns.overview"),
    "search": (
        "Find orders, terminals, requests, sellers, applications and deliveries; exits 1 if none.",
        "paydesk.commands.nouns.overview",
    ),
    "figures": (
        "Show a day's figures: orders by status and hour, amounts, approvals, median time to pay.",
        "paydesk.commands.nouns.overview",
    ),
    "authorize-url": (
        "Print the URL where a seller signs in and consents; open it in a browser.",
        "paydesk.commands.application.authorize",
    ),
    "env": (
        "Print the credentials as shell variables: address, token, application, seller, terminal.",
        "paydesk.commands.application.environment",
    ),
    "openapi": ("Print an OpenAPI document of the HTTP interface.", "paydesk.commands.local.maintenance"),
    "apps": ("Applications, the OAuth clients of the service.", "paydesk.commands.nouns.applications:app"),
    "sellers": ("Sellers, the merchants whose terminals take the orders.", "paydesk.commands.nouns.sellers:app"),
    "grants": ("Grants: which applications may act for which sellers.", "paydesk.commands.nouns.applications:grants"),
    "stores": ("Stores of sellers.", "paydesk.commands.nouns.stores:stores"),
    "pos": ("Points of sale in stores; at each, one terminal takes orders.", "paydesk.commands.nouns.stores:pos"),
    "terminals": (
        "Terminals, which take the orders.",
        "paydesk.commands.nouns.terminals:app",
        "paydesk.commands.nouns.queue",
    ),
    "subscriptions": ("Subscriptions: where notifications are sent.", "paydesk.commands.nouns.subscriptions:app"),
    "orders": (
        "Orders, with their history and notifications.",
        "paydesk.commands.nouns.orders:app",
        "paydesk.commands.application.order_payment",
        "paydesk.commands.application.order_changes",
    ),
    "deliveries": ("Deliveries of notifications.", "paydesk.commands.nouns.deliveries:app"),
    "webhooks": (
        "Notifications to applications.",
        "paydesk.commands.nouns.webhooks:app",
        "paydesk.commands.nouns.deliveries",
        "paydesk.commands.nouns.verify",
    ),
    "requests": (
        "The last requests of applications and terminals, and how they were answered.",
        "paydesk.commands.nouns.requests:app",
    ),
    "inquiries": ("Orders whose outcome is unknown.", "paydesk.commands.nouns.orders:inquiries"),
    "reversals": ("Reversals of late approvals.", "paydesk.commands.nouns.orders:reversals"),
    "refunds": ("Full and partial refunds.", "paydesk.commands.nouns.orders:refunds"),
    "acquirers": ("Acquirers, which take the payments of live orders.", "paydesk.commands.nouns.acquirers:app"),
    "confirmations": ("Confirmations of provisional approvals.", "paydesk.commands.nouns.orders:confirmations"),
    "events": ("Operator events: what needs an operator's attention.", "paydesk.commands.nouns.orders:events"),
    "operators": (
        "Operators: people, who use the console, and programs, which use `paydesk` or the interface.",
        "paydesk.commands.nouns.accounts:app",
    ),
    "sessions": ("Sessions of operators who are signed in to the console.", "paydesk.commands.nouns.accounts:sessions"),
    "audit": (
        "The audit trail: which operator changed what, when and from where.",
        "paydesk.commands.nouns.accounts:audit",
    ),
    "keys": (
        "Server keys, from which tokens and webhook secrets are derived.",
        "paydesk.commands.local.maintenance:keys",
    ),
}
"""By name: the first paragraph of the help, and the modules.

A group is an attribute of the first module, and the other modules add commands to it. A command is one of `top`.
"""

EXTENSIONS = "paydesk.commands"
"""Entry points of this group, in other distributions, are tables too; of a group that is here they add modules."""

KIT = frozenset(
    {
        *("dev", "pay", "code", "reset", "inbox", "console", "clock", "faults", "scenario", "wait", "requests send"),
        *(f"terminals {verb}" for verb in ("create", "screen", "act", "simulate", "conformance")),
        "acquirers conformance",
        *(f"webhooks {verb}" for verb in ("listen", "trigger", "fault")),
    }
)
"""The commands of the development kit, which is a distribution of its own."""
HOW_TO_GET_THE_KIT = "pip install 'paydesk[dev]'"


@cache
def extended() -> Mapping[str, tuple[str, ...]]:
    """Return the table with those of other distributions, whose new commands come first; reading them takes 40 ms."""
    from importlib.metadata import entry_points

    new, more = dict[str, tuple[str, ...]](), dict[str, tuple[str, ...]]()
    for point in entry_points(group=EXTENSIONS):
        for name, (help_text, *modules) in point.load().items():
            if name in COMMANDS:
                more[name] = (*COMMANDS[name], *modules)
            else:
                new[name] = (help_text, *modules)
    return {**new, **COMMANDS, **more}


@cache
def loaded(name: str, _help: str, target: str, *others: str) -> Any:  # Typer keeps the type to itself.
    """Return the command or the group of an entry of the table; its modules are imported."""
    module, _, attribute = target.partition(":")
    first, *_ = [import_module(one) for one in (module, *others)]
    if not attribute:
        return _with_plain_values(typer.main.get_group(top).commands[name])
    group = typer.main.get_group(getattr(first, attribute))
    group.name = name
    return _with_plain_values(group)


def _with_plain_values(command: Any) -> Any:
    """Return the command, whose parameters and those of its commands are read with `_PlainValues`."""
    for param in command.get_params(typer.Context(command)):
        param._runtime_param = _PlainValues()  # noqa: SLF001 - typer's own is made here too, when it is used
    for one in getattr(command, "commands", {}).values():
        _with_plain_values(one)
    return command


class _PlainValues:
    """Takes what is not given, a default or a text as it is: typer would import pydantic, which takes 0.1 s."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value of the parameter. Raises what typer raises for an invalid one."""
        is_text = param.type_descriptor.annotation is str and isinstance(value, str)
        if is_text or value is None or (value is param.default and isinstance(value, str | int | float)):
            return value
        param._runtime_param = None  # noqa: SLF001
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _look_up(table: Mapping[str, tuple[str, ...]], name: str, verb: str) -> tuple[Any, str]:
    """Return the loaded command, None without it, and the command that the table lacks, if it does."""
    if name not in table:
        return None, name
    command = loaded(name, *table[name])
    return command, "" if verb in getattr(command, "commands", {verb}) else f"{name} {verb}"


class _Commands(TyperGroup):
    """The commands of `paydesk`: names and helps of the table, until one is used or completed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, which need not be loaded."""
        unloaded = {name: TyperCommand(name, help=help_text) for name, (help_text, *_) in extended().items()}
        self.commands = {**unloaded, **self.commands}
        return super().list_commands(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, which says how to start."""
        start = "Start with `paydesk dev`, then run `paydesk pay 24.90` in a second shell."
        if "dev" not in extended():
            start = f"To try it, add the development kit (`{HOW_TO_GET_THE_KIT}`) and start `paydesk dev`."
        self.epilog = f"{start} `paydesk --install-completion` adds completion to your shell."
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the loaded command; other tables are read only for what this one lacks. Raises `WrongUsage`."""
        name, verb = (*args, "")[:2]
        command, lacking = _look_up(COMMANDS, name, verb)
        if lacking:
            command, lacking = _look_up(extended(), name, verb)
        if lacking in KIT and not ctx.resilient_parsing:
            raise WrongUsage(
                f"The development kit, which has `paydesk {lacking}`, is not installed: {HOW_TO_GET_THE_KIT}"
            )
        if command is None:
            self.list_commands(ctx)  # From which a similar name is suggested.
            return super().resolve_command(ctx, args)
        return name, command, args[1:]


app = typer.Typer(
    name="paydesk",
    cls=_Commands,
    help="A self-hosted service for in-person payments: tokens, orders for card terminals, webhooks.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


def _print_version(*, requested: bool) -> None:
    if requested:
        from paydesk.core.version import version

        typer.echo(f"paydesk {version()}")
        raise typer.Exit


@app.callback()
def _every_command(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print version and commit, and exit."),
    ] = False,
) -> None:
    """Accept the options of `paydesk` itself."""


@cache
def _root() -> Any:
    """Return the command of all commands, which are not loaded."""
    return _with_plain_values(typer.main.get_command(app))


def tree() -> Any:
    """Return the command of all commands, all of them loaded, which takes 0.2 s."""
    _root().commands = {name: loaded(name, *entry) for name, entry in extended().items()}
    return _root()


def main() -> None:
    """Run a command. Exit codes: 0 success, 1 failure, 2 wrong usage, 3 service unreachable."""
    try:
        _root()()
    except Failure as failure:
        sys.stderr.write(f"{harmless(str(failure))}\n")
        sys.exit(failure.exit_code)
    except UnicodeEncodeError as error:
        if error.reason != "surrogates not allowed":
            raise
        # Arguments that are not UTF-8 reach Python as lone surrogates.
        sys.stderr.write("An argument or a setting is not valid UTF-8.\n")
        sys.exit(WrongUsage.exit_code)
    except BrokenPipeError:
        # The reader of the output closed it (`paydesk orders get … | head`).
        sys.stderr.close()
        sys.exit(1)
