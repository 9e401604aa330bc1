"""A switch for Paydesk's HTTP adapter: the server between Paydesk and the acquirer's system, the host.

Copy it as the start of your own, and replace `book.py`, which plays the host. README.md shows how to run it, and
docs/switch-openapi.json describes every message.
"""

import argparse
import hashlib
import hmac
import json
import os
import re
import socket
import traceback
from datetime import datetime
from pathlib import Path

import book
from aiohttp import web
from book import Book, Json, Refused

BODY_BYTES_MAX, CLOCK_SECONDS_MAX, SECRET_CHARACTERS_MIN = 64 * 1024, 300, 32
LEDGER_ENTRIES_MAX, LEDGER_PAGE_ENTRIES_MAX = 1000, 150  # The first may be asked for; the second is below 64 KiB.
SIGNATURE = re.compile(r"t=([0-9]{1,12}),k=([\w.-]{1,64}),v1=([0-9a-f]{64})", re.ASCII)
KEY = re.compile(r"[0-9A-Z]{26,29}")
FORMATS = {"payment_id": re.compile(r"PAY[0-9A-Z]{26}"), "currency": re.compile(r"[A-Z]{3}")}

EXAMPLES = """examples:
  # The secret is made once; Paydesk has the same file. This host's approvals are final.
  (umask 077; openssl rand -hex 32 >.paydesk/examples/switch.key)
  python3 examples/switch/switch.py --secret-file .paydesk/examples/switch.key

  # This host confirms by itself, an hour after the approval, what was neither confirmed nor reversed.
  python3 examples/switch/switch.py --secret-file .paydesk/examples/switch.key \\
    --needs-confirmation --confirms-after 3600

  # A change of the secret: both are accepted. Then Paydesk gets the new one, and then the old one is left out.
  python3 examples/switch/switch.py --secret-file new.key --secret-file old.key
"""


class Switch:
    """The HTTP side: verifies each request, and signs each answer with the secret that its request was signed with."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.book, self.path, self.key_id = Book(options), options.path, options.key_id
        self.secrets: list[bytes] = [file.read_text().strip().encode() for file in options.secret_file]

    async def handle(self, request: web.Request) -> web.Response:
        """Answer a request: 200 for every outcome, else a signed error."""
        key, secret = request.headers.get("Idempotency-Key", ""), self.secrets[0]
        status, answer = 200, {}
        try:
            content = await request.read()
            secret = self.verified(request, key, content)
            answer = self.answer(request, key, content)
        except Refused as refused:
            status, answer = refused.status, refused.body
        except web.HTTPRequestEntityTooLarge:
            status, answer = 400, {"error": "body_too_large", "message": f"At most {BODY_BYTES_MAX} bytes."}
        except Exception:  # noqa: BLE001  # the request may have taken effect, and 500 says so
            traceback.print_exc()
            status, answer = 500, {"error": "internal", "message": "The outcome is unknown. Retry with the same key."}
        trace = request.headers.get("traceparent", "")
        print(book.rfc3339(self.now_ms()), request.path, key, status, answer.get("outcome", ""), trace, flush=True)
        return self.signed_response(status, answer, key, secret)

    def signed_response(self, status: int, answer: Json, key: str, secret: bytes) -> web.Response:
        """Return the answer with its signature."""
        content, seconds = json.dumps(answer).encode(), str(self.now_ms() // 1000)
        signature = f"t={seconds},k={self.key_id},v1={sign(secret, seconds, str(status), key, content=content)}"
        headers = {"Paydesk-Signature": signature}
        return web.Response(status=status, body=content, content_type="application/json", headers=headers)

    def verified(self, request: web.Request, key: str, content: bytes) -> bytes:
        """Return the secret that the request is signed with. Raises `Refused` without a valid signature."""
        header = SIGNATURE.fullmatch(request.headers.get("Paydesk-Signature", ""))
        if not header:
            raise Refused(401, "signature_missing", "Send Paydesk-Signature: t=<seconds>,k=<key id>,v1=<hex>.")
        seconds, key_id, signature = header.groups()
        if key_id != self.key_id:
            raise Refused(401, "unknown_key_id", "The switch has no secret of this key id.")
        parts = (seconds, request.method, request.raw_path, key)
        signatures = [sign(secret, *parts, content=content) for secret in self.secrets]
        matching = [hmac.compare_digest(expected, signature) for expected in signatures]
        if not any(matching):
            raise Refused(401, "bad_signature", "The signature is not valid: compare the secret and the path.")
        if abs(self.now_ms() / 1000 - int(seconds)) > CLOCK_SECONDS_MAX:
            raise Refused(401, "clock_skew", "The clocks differ by over 300 s.", time=book.rfc3339(self.now_ms()))
        return self.secrets[matching.index(True)]

    def answer(self, request: web.Request, key: str, content: bytes) -> Json:
        """Perform the operation that the path names."""
        operation = f"{request.method} {request.path.removeprefix(self.path)}"
        if operation == "GET /echo":
            return {"time": book.rfc3339(self.now_ms())}
        if operation == "GET /ledger":
            return self.book.ledger(*ledger_query(request))
        match = re.fullmatch("POST /(authorize|confirm|inquire|reverse|refund)", operation)
        if not match or not request.path.startswith(self.path):
            raise Refused(404, "unknown_path", "There is no such operation.")
        if match[1] != "inquire" and not KEY.fullmatch(key):
            raise Refused(400, "bad_key", "Idempotency-Key must have 26 to 29 characters of 0-9 and A-Z.")
        return self.book.perform(match[1], key, valid_body(content, is_refund=match[1] == "refund"))

    @staticmethod
    def now_ms() -> int:
        """Return the time of the book."""
        return int(book.now() * 1000)


def sign(secret: bytes, *parts: str, content: bytes) -> str:
    """Return the signature of a request (t, method, path, key) or of an answer (t, status, key), with its body."""
    text = "\n".join(("v1", *parts, hashlib.sha256(content).hexdigest()))
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()


def valid_body(content: bytes, *, is_refund: bool) -> Json:
    """Return the body of a request. Fields that the switch does not know are ignored: later versions may send them."""
    try:
        body = json.loads(content)
    except ValueError as error:
        raise Refused(400, "bad_request", "The body is not JSON in UTF-8.") from error
    if not isinstance(body, dict):
        raise Refused(400, "bad_request", "The body must be an object.")
    malformed = [name for name, pattern in FORMATS.items() if not pattern.fullmatch(str(body.get(name)))]
    amounts = ("amount_minor", "refund_minor") if is_refund else ("amount_minor",)
    malformed += [name for name in amounts if type(body.get(name)) is not int or not 0 < body[name] < 10**15]
    malformed += [name for name in ("payment_method", "card") if not isinstance(body.get(name) or {}, dict)]
    if malformed:
        raise Refused(400, "bad_request", f"Missing or malformed: {', '.join(malformed)}.")
    return body


def ledger_query(request: web.Request) -> tuple[int, int, int]:
    """Return the start in ms, the cursor and the limit."""
    query = request.query
    try:
        since = datetime.fromisoformat(query.get("since") or "1970-01-01T00:00:00Z")
        cursor, limit = int(query.get("cursor") or 0), int(query.get("limit") or LEDGER_ENTRIES_MAX)
        if since.tzinfo is None or not 1 <= limit <= LEDGER_ENTRIES_MAX or cursor < 0:
            raise ValueError
    except ValueError as error:
        message = "since is a time with its offset, cursor the last answer's next, limit a number from 1 to 1000."
        raise Refused(400, "bad_request", message) from error
    return int(since.timestamp() * 1000), cursor, min(limit, LEDGER_PAGE_ENTRIES_MAX)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="A switch for Paydesk's HTTP adapter, which plays the acquirer's host too.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--listen", default="127.0.0.1:9010", metavar="HOST:PORT", help="default %(default)s; port 0: any free one")
    add("--path", default="/paydesk", help="the path of the adapter's `url`, default %(default)s")
    add("--database", type=Path, default=Path(".paydesk/examples/switch.db"), help="default %(default)s")
    add("--key-id", default="shop-1", help="the adapter's `key_id`, default %(default)s")
    add("--secret-file", type=Path, action="append", required=True, help="once, or twice during a change")
    add("--needs-confirmation", action="store_true", help="approvals are provisional until they are confirmed")
    add("--reversal-blocks", action="store_true", help="reversing an unknown payment makes a later one fail")
    add("--cannot-inquire", action="store_true", help="the host has no inquiries")
    add("--reverse-until", type=int, metavar="SECONDS", help="a payment can be reversed for this time")
    deadline = parser.add_mutually_exclusive_group()
    deadline.add_argument("--confirms-after", type=int, metavar="SECONDS", help="then the host confirms by itself")
    deadline.add_argument("--undoes-after", type=int, metavar="SECONDS", help="then the host undoes by itself")
    options = parser.parse_args()
    if (options.confirms_after or options.undoes_after) and not options.needs_confirmation:
        parser.error("--confirms-after and --undoes-after need --needs-confirmation")
    for file in options.secret_file:
        if not file.is_file() or len(file.read_text().strip()) < SECRET_CHARACTERS_MIN:
            parser.error(f"{file} must exist and have at least {SECRET_CHARACTERS_MIN} characters")
    return options


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    options = arguments()
    os.umask(0o077)  # The database has payments.
    options.database.parent.mkdir(parents=True, exist_ok=True)
    app = web.Application(client_max_size=BODY_BYTES_MAX)
    app.router.add_route("*", "/{path:.*}", Switch(options).handle)
    host, _, port = options.listen.rpartition(":")
    listener = socket.create_server((host, int(port)))
    ready = f"switch ready http://{host}:{listener.getsockname()[1]}{options.path}"
    # Paydesk closes idle connections after 10 s, so none is closed here while a request is on its way.
    web.run_app(app, sock=listener, print=lambda _: print(ready, flush=True), access_log=None, keepalive_timeout=60)


if __name__ == "__main__":
    main()
