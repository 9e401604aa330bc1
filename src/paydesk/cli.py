"""The command line: every noun and verb in one place. Heavy imports wait until a command needs them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paydesk import __version__
from paydesk.commands import (
    apps,
    authorize,
    development,
    grants,
    maintenance,
    operators,
    orders,
    outcomes,
    pay,
    running,
    sellers,
    stores,
    subscriptions,
    terminals,
)
from paydesk.commands.failure import Failure, WrongUsage

app = typer.Typer(
    name="paydesk",
    help="In-person payments on your own machines: tokens, orders for card terminals, webhooks.",
    epilog="Begin with `paydesk dev`, and in another terminal `paydesk pay 24.90`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

app.command("dev", epilog=running.DEV_EPILOG)(running.dev)
app.command("pay", epilog=pay.EPILOG)(pay.pay)
app.command("authorize-url", epilog=authorize.EPILOG)(authorize.authorize_url)
app.command("code", epilog=development.CODE_EPILOG)(development.code)
app.command("serve", epilog=running.SERVE_EPILOG)(running.serve)
app.command("migrate", epilog=maintenance.MIGRATE_EPILOG)(maintenance.migrate)
app.command("doctor", epilog=maintenance.DOCTOR_EPILOG)(maintenance.doctor)
app.command("openapi", epilog=maintenance.OPENAPI_EPILOG)(maintenance.openapi)

app.add_typer(apps.app, name="apps")
app.add_typer(sellers.app, name="sellers")
app.add_typer(grants.app, name="grants")
app.add_typer(stores.app, name="stores")
app.add_typer(stores.pos, name="pos")
app.add_typer(terminals.app, name="terminals")
app.add_typer(subscriptions.app, name="subscriptions")
app.add_typer(orders.app, name="orders")
app.add_typer(orders.deliveries, name="deliveries")
app.add_typer(outcomes.inquiries, name="inquiries")
app.add_typer(outcomes.reversals, name="reversals")
app.add_typer(outcomes.refunds, name="refunds")
app.add_typer(orders.events, name="events")
app.add_typer(development.clock, name="clock")
app.add_typer(operators.app, name="operators")
app.add_typer(maintenance.keys, name="keys")


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"paydesk {__version__}")
        raise typer.Exit


@app.callback()
def _every_command(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and end."),
    ] = False,
) -> None:
    """Nothing is common to all commands but what ends before them."""


def main() -> None:
    """Run a command. Exit codes: 0 done, 1 refused or not as wished, 2 wrong usage, 3 not reachable."""
    try:
        app()
    except Failure as failure:
        sys.stderr.write(f"{failure}\n")
        sys.exit(failure.exit_code)
    except UnicodeEncodeError as error:
        if error.reason != "surrogates not allowed":
            raise
        # Bytes that are no text reach Python as lone surrogates.
        sys.stderr.write("What was given is not UTF-8.\n")
        sys.exit(WrongUsage.exit_code)
    except BrokenPipeError:
        # Whoever read our output has seen enough (`paydesk orders get … | head`).
        sys.stderr.close()
        sys.exit(1)


if __name__ == "__main__":
    main()
