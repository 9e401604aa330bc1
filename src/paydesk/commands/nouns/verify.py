"""`paydesk webhooks verify`: says whether a recorded notification is signed correctly, and if not, why."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paydesk.commands.client.credentials import known_document
from paydesk.commands.client.failure import Failure, WrongUsage
from paydesk.commands.client.options import AsJson, CredentialsFile, examples, harmless_line, note, show
from paydesk.commands.local import recorded_requests
from paydesk.commands.local.secret import FIELD
from paydesk.commands.nouns import webhooks

if TYPE_CHECKING:
    from paydesk.engine.webhooks.signatures.mistakes import NamedSecret

EPILOG = examples(
    "paydesk webhooks verify request.txt --secret whsec_…",
    "paydesk webhooks verify < request.txt",
    "paydesk webhooks verify --headers headers.txt --body body.json --query 'data.id=ord01j67…&type=order'",
)
BYTES_MAX = 16 * 1024 * 1024


@webhooks.app.command("verify", epilog=EPILOG)
def verify(
    request: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="The request: a line `POST /hook?data.id=… HTTP/1.1`, headers, an empty line, the body; or JSON with"
            " `headers` and `body`. [default: standard input]",
        ),
    ] = None,
    *,
    headers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The headers alone: lines `Name: value`, or a JSON object.")
    ] = None,
    body: Annotated[Path | None, typer.Option(metavar="FILE", help="The body alone, byte for byte.")] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", "--url", metavar="TEXT", help="The query or the URL of the request, with its data.id."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHSEC",
            help="A secret; may be repeated. [default: webhook.secret and listen_secret of the credentials file]",
        ),
    ] = None,
    any_age: Annotated[
        bool, typer.Option("--any-age", help="Accept a signature of any time: for a request from a log.")
    ] = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Verify both signatures of a notification that a receiver got; exits 0 only if both are valid.

    Uses no network. If a signature is not valid, it says which part differs, as far as a usual mistake explains it.
    """
    from paydesk.engine.webhooks.signatures import diagnosis

    if headers is None and body is None:
        recorded = recorded_requests.parse(read(request), query)
    elif headers is None or body is None or request is not None:
        raise WrongUsage("Give --headers and --body together, or one file with the whole request.")
    else:
        given = recorded_requests.parse_headers(read(headers).decode("utf-8", "surrogateescape"))
        recorded = recorded_requests.recorded(given, read(body), query)
    verdicts = diagnosis.verify(recorded, _secrets(secret, credentials), None if any_age else time.time())
    signatures = [
        {
            "header": one.header,
            "valid": one.is_valid,
            "reasons": one.reasons,
            "remarks": one.remarks,
            **({"signed": one.signed} if one.signed else {}),
        }
        for one in verdicts
    ]
    is_valid = all(one.is_valid for one in verdicts)
    text = "\n".join(map(verdict_text, signatures))
    show({"valid": is_valid, "signatures": signatures}, text, as_json=as_json)
    if not is_valid:
        raise Failure("The notification is not signed correctly, or is too old: a receiver must refuse it.")


def read(file: Path | None) -> bytes:
    """Return the contents of the file, or of standard input. Raises `WrongUsage`."""
    try:
        if file is not None:
            with file.open("rb") as opened:
                raw = opened.read(BYTES_MAX + 1)
        else:
            if sys.stdin.isatty():
                note("Paste the request, then press Ctrl-D.")
            stream = getattr(sys.stdin, "buffer", None)
            raw = stream.read(BYTES_MAX + 1) if stream is not None else sys.stdin.read().encode()
    except OSError as error:
        raise WrongUsage(f"{file or 'Standard input'} cannot be read: {error.strerror}.") from None
    if len(raw) > BYTES_MAX:
        raise WrongUsage(f"{file or 'Standard input'} has more than {BYTES_MAX} bytes: it is no notification.")
    return raw


def _secrets(given: list[str] | None, credentials: Path | None) -> list[NamedSecret]:
    """Return the given secrets, or those of the credentials file. Raises `WrongUsage` if there are none."""
    from paydesk.engine.webhooks.signatures.mistakes import NamedSecret

    if given:
        names = ["the secret"] if len(given) == 1 else [f"secret {number}" for number in range(1, len(given) + 1)]
        return [NamedSecret(name, value.strip()) for name, value in zip(names, given, strict=True)]
    document = known_document(credentials)
    configured = {"webhook.secret": document.get("webhook", {}).get("secret"), FIELD: document.get(FIELD)}
    secrets = [NamedSecret(name, value) for name, value in configured.items() if isinstance(value, str) and value]
    if not secrets:
        raise WrongUsage("There is no secret to verify with. Give one with --secret whsec_…")
    return secrets


def verdict_text(signature: Mapping[str, Any]) -> str:
    """Return the verdict about one signature as people read it."""
    texts = [*signature["reasons"], *signature["remarks"]]
    if signature.get("signed") and not signature["valid"]:
        texts.append(f"The signed text, with the values received: {signature['signed']}")
    head = f"{signature['header']}: {'valid' if signature['valid'] else 'NOT VALID'}"
    return "\n".join((head, *(f"  {harmless_line(text)}" for text in texts)))
