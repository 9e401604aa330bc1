"""`paydesk code`, `clock`, `inbox`, `reset` and `console`, for `paydesk dev` only."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client.asking import Yes, confirm, refuse_unattended
from paydesk.commands.client.client import Answer, Service
from paydesk.commands.client.command import command
from paydesk.commands.client.credentials import credentials_path
from paydesk.commands.client.credentials_file import read_document
from paydesk.commands.client.failure import Failure, WrongUsage
from paydesk.commands.client.options import AsJson, CredentialsFile, examples, group, show, show_list, top

clock = group("The clock of `paydesk dev`: stop it, advance it, or reset it.")

DUE = {
    "order_expiry": ("expiry of an order", "expiries of orders"),
    "outcome_deadline": ("outcome of an order", "outcomes of orders"),
    "cancel_deadline": ("answer to a cancel request", "answers to cancel requests"),
    "print_action_expiry": ("expiry of a print action", "expiries of print actions"),
    "confirmation": ("confirmation or undo of an approval", "confirmations or undos of approvals"),
    "refund_attempt": ("attempt of a refund", "attempts of refunds"),
    "inquiry": ("inquiry", "inquiries"),
    "reversal_attempt": ("attempt of a reversal", "attempts of reversals"),
    "webhook_delivery": ("webhook delivery", "webhook deliveries"),
}
"""The words for what can be due, one and several."""

INBOX_COLUMNS = ("received_date", "action", "order_id", "version", "signature_valid")
INBOX_EXAMPLES = ("paydesk inbox", "paydesk inbox --limit 5 --json")
RESET_EXAMPLES = ("paydesk reset", "paydesk reset --yes", "paydesk reset --terminals --yes")
CONSOLE_EPILOG = examples("paydesk console", "paydesk console --credentials demo/credentials.json")
CODE_EXAMPLES = (
    "paydesk code",
    "paydesk code --test",
    "paydesk code --client-id 3676047501096810 --seller 1160535239 --scope 'read write'",
    "paydesk code --code-challenge E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM --code-challenge-method S256",
)


@command(top, "code", *CODE_EXAMPLES)
def code(  # noqa: PLR0913 - one parameter for each option
    service: Service,
    client_id: Annotated[str | None, typer.Option(help="The application. [default: the demo application]")] = None,
    seller: Annotated[
        int | None, typer.Option(metavar="USER_ID", help="The seller who consents. [default: the demo seller]")
    ] = None,
    redirect_uri: Annotated[
        str | None, typer.Option(help="A redirect URI of the application. [default: its first]")
    ] = None,
    scope: Annotated[str | None, typer.Option(help="The scopes. [default: all of the application's]")] = None,
    code_challenge: Annotated[str | None, typer.Option(help="The PKCE challenge, 43 characters of base64url.")] = None,
    code_challenge_method: Annotated[str | None, typer.Option(help="S256, the only method.")] = None,
    *,
    test: Annotated[
        bool | None,
        typer.Option(
            "--test/--live", help="Only for test tokens, or only for live ones. [default: the exchange decides]"
        ),
    ] = None,
    as_json: bool,
) -> None:
    """Issue an authorization code without a browser; it is valid for ten minutes."""
    document = service.credentials.document
    body = {
        "client_id": client_id or document.get("client_id"),
        "user_id": seller or document.get("seller", {}).get("user_id"),
        "redirect_uri": redirect_uri,
        "scope": scope,
        "code_challenge": code_challenge,
        "code_challenge_method": code_challenge_method,
        "test_token": test,
    }
    if not body["client_id"] or not body["user_id"]:
        raise WrongUsage("The credentials name no application and seller. Add --client-id and --seller.")
    answer = service.post("/operator/v1/codes", body)
    show(answer, answer["code"], as_json=as_json)


@command(clock, "freeze", "paydesk clock freeze")
def freeze(service: Service) -> Answer:
    """Stop the clock."""
    return service.post("/dev/clock", {"freeze": True})


@command(clock, "advance", "paydesk clock advance 61s", "paydesk clock advance 15m", "paydesk clock advance --to-next")
def advance(
    service: Service,
    by: Annotated[str | None, typer.Argument(help="The duration: PT61S, 61s, 15m, 3h or 181d.")] = None,
    *,
    to_next: Annotated[
        bool,
        typer.Option("--to-next", help="To what is due next, such as an expiry or a retry; exits 1 if nothing is."),
    ] = False,
) -> tuple[Answer, str]:
    """Advance the clock, running or stopped. Says so if the tokens of the credentials file expire by it."""
    if (by is None) != to_next:
        raise WrongUsage("Give either a duration, such as 15m, or --to-next.")
    moved = service.post("/dev/clock", {"advance": by, "to_next": to_next or None})
    if to_next and "next" not in moved:
        raise Failure(
            "Nothing is due: no order or print action expires, and no refund, inquiry, reversal or webhook is to be"
            " attempted. The clock was not moved."
        )
    if not to_next:
        return moved, _renewed(moved)
    due = moved["next"]
    one, several = DUE.get(due["kind"], (due["kind"], due["kind"]))
    count = f"{due['count']} {several} were" if due["count"] != 1 else f"1 {one} was"
    return moved, f"{count} due at {due['due_date']}.\n{_renewed(moved)}".rstrip()


@command(clock, "resume", "paydesk clock resume")
def resume(service: Service) -> Answer:
    """Restart a stopped clock from its current time."""
    return service.post("/dev/clock", {"resume": True})


@command(clock, "reset", "paydesk clock reset", "paydesk reset --yes && paydesk clock reset")
def reset_clock(service: Service) -> tuple[Answer, str]:
    """Let the clock show this machine's time again. Refused while there are orders or tokens; `paydesk reset` first."""
    moved = service.post("/dev/clock", {"reset": True})
    return moved, _renewed(moved)


def _renewed(moved: Answer) -> str:
    """Return the note that the tokens in the credentials file have expired, empty if they have not."""
    file = moved.get("renewed_credentials")
    return f"The tokens in {file} had expired by this time. The file has new ones: read it again." if file else ""


@command(top, "reset", *RESET_EXAMPLES)
def reset(
    service: Service,
    *,
    terminals: Annotated[
        bool,
        typer.Option(
            "--terminals", help="Also remove the virtual terminals for which a point of sale was made, with it."
        ),
    ] = False,
    yes: Yes = False,
) -> Answer:
    """Remove orders and what depends on them, idempotency keys, the inbox, and tokens not in the credentials file.

    The tokens of the credentials file stay, and so does everything that was created: applications, sellers, terminals.
    """
    refuse_unattended(yes=yes)
    also = "all virtual terminals at points of sale of their own, " if terminals else ""
    confirm(f"Remove all orders, {also}and all tokens that are not in the credentials file?", yes=yes)
    service.post("/dev/reset", {"terminals": True} if terminals else {})
    return {"reset": True}


@command(top, "inbox", *INBOX_EXAMPLES)
def inbox(
    service: Service,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many of the newest notifications.")] = 20,
    *,
    as_json: bool,
) -> None:
    """List the notifications that the demo inbox received, newest last."""
    show_list(service.get("/demo/inbox", {"limit": limit}), INBOX_COLUMNS, as_json=as_json)


@command(clock, "show", "paydesk clock show --json")
def show_clock(service: Service) -> Answer:
    """Show the time of the clock."""
    return service.get("/dev/clock")


@top.command("console", epilog=CONSOLE_EPILOG)
def console(*, as_json: AsJson = False, credentials: CredentialsFile = None) -> None:
    """Print the address that opens the console of `paydesk dev`, signed in as its operator.

    It is valid while that service runs. Elsewhere sign in at the service's `/console`.
    """
    path = credentials_path(credentials)
    url = read_document(path).get("console_url")
    if url is None:
        raise WrongUsage(
            f"The credentials file {path} has no address of a console: it is not from a running `paydesk dev`.",
            "Start `paydesk dev`, or name the file that it writes with --credentials.",
        )
    show({"console_url": url}, url, as_json=as_json)
