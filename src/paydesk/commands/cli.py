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
    "dev": (
        "Run everything on this machine: service, database, workers, virtual terminals, webhook inbox.",
        "paydesk.commands.local.serve",
    ),
    "pay": (
        "Pay on a virtual terminal and print each status change and webhook; exits 1 unless it is paid.",
        "paydesk_dev.commands.pay",
    ),
    "authorize-url": (
        "Print the URL where a seller signs in and consents; open it in a browser.",
        "paydesk.commands.application.authorize",
    ),
    "code": (
        "Issue an authorization code without a browser; it is valid for ten minutes.",
        "paydesk_dev.commands.development",
    ),
    "reset": (
        "Remove orders and what depends on them, idempotency keys, the inbox and issued tokens.",
        "paydesk_dev.commands.development",
    ),
    "inbox": ("List the notifications that the demo inbox received, newest last.", "paydesk_dev.commands.development"),
    "attention": ("List what needs a person, the most urgent first.", "paydesk.commands.nouns.overview"),
    "search": (
        "Find orders, terminals, requests, sellers, applications and deliveries; exits 1 if none.",
        "paydesk.commands.nouns.overview",
    ),
    "figures": (
        "Show a day's figures: orders by status and hour, amounts, approvals, median time to pay.",
        "paydesk.commands.nouns.overview",
    ),
    "serve": ("Run the service in production.", "paydesk.commands.local.serve"),
    "migrate": ("Migrate the database to this version.", "paydesk.commands.local.maintenance"),
    "doctor": (
        "Check the integrity of the database; exits 1 if a problem is found.",
        "paydesk.commands.local.maintenance",
    ),
    "console": (
        "Print the address that opens the console of `paydesk dev`, signed in as its operator.",
        "paydesk.commands.application.environment",
    ),
    "env": (
        "Print the credentials as shell variables: address, token, application, seller, terminal.",
        "paydesk.commands.application.environment",
    ),
    "openapi": ("Print the OpenAPI document of the HTTP interface.", "paydesk.commands.local.maintenance"),
    "apps": ("Applications, the OAuth clients of the service.", "paydesk.commands.nouns.applications:app"),
    "sellers": ("Sellers, the merchants whose terminals take the orders.", "paydesk.commands.nouns.sellers:app"),
    "grants": ("Grants: which applications may act for which sellers.", "paydesk.commands.nouns.applications:grants"),
    "stores": ("Stores of sellers.", "paydesk.commands.nouns.stores:stores"),
    "pos": ("Points of sale in stores; at each, one terminal takes orders.", "paydesk.commands.nouns.stores:pos"),
    "terminals": (
        "Terminals, which take the orders.",
        "paydesk.commands.nouns.terminals:app",
        "paydesk.commands.nouns.queue",
        "paydesk_dev.commands.virtual_terminals",
        "paydesk_dev.commands.simulate",
        "paydesk_dev.commands.conformance",
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
        "paydesk_dev.forwarding.listen",
        "paydesk_dev.forwarding.trigger",
        "paydesk.commands.nouns.verify",
    ),
    "requests": (
        "The last requests of applications and terminals, and how they were answered.",
        "paydesk.commands.nouns.requests:app",
    ),
    "inquiries": ("Orders whose outcome is unknown.", "paydesk.commands.nouns.orders:inquiries"),
    "reversals": ("Reversals of late approvals.", "paydesk.commands.nouns.orders:reversals"),
    "refunds": ("Full and partial refunds.", "paydesk.commands.nouns.orders:refunds"),
    "events": ("Operator events: what needs an operator's attention.", "paydesk.commands.nouns.orders:events"),
    "clock": (
        "The clock of `paydesk dev`: stop it, advance it, or reset it.",
        "paydesk_dev.commands.development:clock",
    ),
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


@cache
def loaded(name: str) -> Any:  # Typer keeps the type to itself.
    """Return the command or the group, whose modules are imported."""
    _, target, *others = COMMANDS[name]
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


class _Commands(TyperGroup):
    """The commands of `paydesk`: names and helps of the table, until one is used or completed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the loaded command instead of its name and help."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and loaded(str(name)), rest


app = typer.Typer(
    name="paydesk",
    cls=_Commands,
    help="A self-hosted service for in-person payments: tokens, orders for card terminals, webhooks.",
    epilog=(
        "Start with `paydesk dev`, then run `paydesk pay 24.90` in a second shell."
        " `paydesk --install-completion` adds completion to your shell."
    ),
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
    root: Any = _with_plain_values(typer.main.get_command(app))
    root.commands = {name: TyperCommand(name, help=help_text) for name, (help_text, *_) in COMMANDS.items()}
    return root


def tree() -> Any:
    """Return the command of all commands, all of them loaded, which takes 0.2 s."""
    _root().commands.update({name: loaded(name) for name in COMMANDS})
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


if __name__ == "__main__":
    main()
