"""The command line `paydesk`. Commands import heavy modules when they run."""

from __future__ import annotations

import sys
from functools import cache
from typing import Annotated, Any

import typer
import typer.main

from paydesk.commands import (
    apps,
    authorize,
    conformance,
    console,
    deliveries,
    development,
    environment,
    maintenance,
    operators,
    order_changes,
    order_payment,
    orders,
    overview,
    pay,
    requests,
    running,
    sellers,
    simulate,
    slot,
    stores,
    subscriptions,
    terminals,
    virtual_terminals,
    webhook_listen,
    webhook_trigger,
    webhook_verify,
    webhooks,
)
from paydesk.commands.checked import TakesAmount
from paydesk.commands.command import command
from paydesk.commands.failure import Failure, WrongUsage
from paydesk.commands.options import harmless

app = typer.Typer(
    name="paydesk",
    help="A self-hosted service for in-person payments: tokens, orders for card terminals, webhooks.",
    epilog=(
        "Start with `paydesk dev`, then run `paydesk pay 24.90` in a second shell."
        " `paydesk --install-completion` adds completion to your shell."
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

app.command("dev", epilog=running.DEV_EPILOG)(running.dev)
app.command("pay", cls=TakesAmount, epilog=pay.EPILOG)(pay.pay)
app.command("authorize-url", epilog=authorize.EPILOG)(authorize.authorize_url)
command(app, "code", *development.CODE_EXAMPLES)(development.code)
command(app, "reset", *development.RESET_EXAMPLES)(development.reset)
command(app, "inbox", *development.INBOX_EXAMPLES)(development.inbox)
command(app, "attention", *overview.ATTENTION_EXAMPLES)(overview.attention)
command(app, "search", *overview.SEARCH_EXAMPLES)(overview.search)
command(app, "figures", *overview.FIGURES_EXAMPLES)(overview.figures)
app.command("serve", epilog=running.SERVE_EPILOG)(running.serve)
app.command("migrate", epilog=maintenance.MIGRATE_EPILOG)(maintenance.migrate)
app.command("doctor", epilog=maintenance.DOCTOR_EPILOG)(maintenance.doctor)
app.command("console", epilog=console.EPILOG)(console.console)
app.command("env", epilog=environment.EPILOG)(environment.env)
app.command("openapi", epilog=maintenance.OPENAPI_EPILOG)(maintenance.openapi)

command(terminals.app, "queue", slot.QUEUE_EXAMPLE)(slot.queue)
command(terminals.app, "release", slot.RELEASE_EXAMPLE)(slot.release)
command(terminals.app, "screen", *virtual_terminals.SCREEN_EXAMPLES)(virtual_terminals.screen)
command(terminals.app, "act", *virtual_terminals.ACT_EXAMPLES)(virtual_terminals.act)
command(terminals.app, "simulate", *simulate.EXAMPLES)(simulate.simulate)

app.add_typer(apps.app, name="apps")
app.add_typer(sellers.app, name="sellers")
app.add_typer(apps.grants, name="grants")
app.add_typer(stores.stores, name="stores")
app.add_typer(stores.pos, name="pos")
terminals.app.command("conformance", epilog=conformance.EPILOG)(conformance.conformance)
app.add_typer(terminals.app, name="terminals")
app.add_typer(subscriptions.app, name="subscriptions")
orders.app.command("create", cls=TakesAmount, epilog=order_payment.CREATE_EPILOG)(order_payment.create)
orders.app.command("watch", epilog=order_payment.WATCH_EPILOG)(order_payment.watch)
orders.app.command("cancel", epilog=order_changes.CANCEL_EPILOG)(order_changes.cancel)
orders.app.command("refund", cls=TakesAmount, epilog=order_changes.REFUND_EPILOG)(order_changes.refund)
orders.app.command("simulate", epilog=order_changes.SIMULATE_EPILOG)(order_changes.simulate)
overview.add_export(orders.app)
app.add_typer(orders.app, name="orders")
app.add_typer(deliveries.app, name="deliveries")
webhooks.app.command("listen", epilog=webhook_listen.EPILOG)(webhook_listen.listen)
webhooks.app.command("trigger", epilog=webhook_trigger.EPILOG)(webhook_trigger.trigger)
webhooks.app.command("verify", epilog=webhook_verify.EPILOG)(webhook_verify.verify)
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(requests.app, name="requests")
app.add_typer(orders.inquiries, name="inquiries")
app.add_typer(orders.reversals, name="reversals")
app.add_typer(orders.refunds, name="refunds")
app.add_typer(orders.events, name="events")
app.add_typer(development.clock, name="clock")
app.add_typer(operators.app, name="operators")
app.add_typer(operators.sessions, name="sessions")
app.add_typer(operators.audit, name="audit")
app.add_typer(maintenance.keys, name="keys")


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
def tree() -> Any:  # Typer keeps the type to itself.
    """Return the command of all commands, which takes 50 ms to build."""
    return typer.main.get_command(app)


def main() -> None:
    """Run a command. Exit codes: 0 success, 1 failure, 2 wrong usage, 3 service unreachable."""
    try:
        tree()()
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
