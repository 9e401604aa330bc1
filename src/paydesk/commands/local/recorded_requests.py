"""Recorded requests as people have them: an HTTP request as text, JSON of a log, or files of headers and body."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from paydesk.commands.client.failure import WrongUsage

if TYPE_CHECKING:
    from paydesk.engine.webhooks.signatures.mistakes import Recorded

_REQUEST_LINE = re.compile(r"[A-Z]{3,10} (\S+)(?: HTTP/[0-9.]+)?")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*(.*)")
_CURL_PREFIX = "> "


def parse(raw: bytes, query: str | None) -> Recorded:
    """Return the request of a text: a request line, headers, an empty line and the body; or of a JSON object.

    `query`, a query string or a URL, has precedence. Raises `WrongUsage`.
    """
    if raw.lstrip().startswith(b"{"):
        document = _json(raw)
        if not isinstance(document.get("headers"), dict) or not isinstance(document.get("body"), str):
            raise WrongUsage(
                "This JSON is not a recorded request: it must have `headers`, and `body` as text.",
                "Give a body and its headers with --body FILE --headers FILE.",
            )
        url = document.get("url")
        named = query or (url if isinstance(url, str) else None)
        return recorded(_header_object(document["headers"]), document["body"].encode(), named)
    raw = raw.lstrip(b"\r\n")
    # The body follows the first empty line; a line that begins with `{` begins it too.
    gap = re.search(rb"\r?\n(?:>[ \t]*)?\r?\n|\r?\n(?=\{)", raw)
    head, body = (raw[: gap.start()], raw[gap.end() :]) if gap is not None else (raw, b"")
    lines = [line for line in head.decode("utf-8", "surrogateescape").splitlines() if line.strip()]
    if lines and all(line.startswith(_CURL_PREFIX) or line == ">" for line in lines):
        lines = [line.removeprefix(_CURL_PREFIX) for line in lines if line != ">"]
    url = query
    first = lines[0].strip() if lines else ""
    request_line = _REQUEST_LINE.fullmatch(first)
    if request_line is not None or first.startswith(("http://", "https://", "/")):
        url = query if query is not None else request_line[1] if request_line is not None else first
        del lines[0]
    headers = parse_headers("\n".join(lines))
    return recorded(headers, _without_pasted_newline(body, headers), url)


def parse_headers(text: str) -> dict[str, str]:
    """Return headers of lines `Name: value` or of a JSON object, with names in lower case. Raises `WrongUsage`."""
    if text.lstrip().startswith("{"):
        return _header_object(_json(text.encode("utf-8", "surrogateescape")))
    headers = {}
    for line in text.splitlines():
        if line.strip():
            header = _HEADER.fullmatch(line.strip())
            if header is None:
                raise WrongUsage(f"{line.strip()[:80]!r} is not a header. A header is Name: value.")
            headers[header[1].lower()] = header[2].strip()
    return headers


def recorded(headers: Mapping[str, str], body: bytes, url: str | None) -> Recorded:
    """Return the request. `url` may be a URL, a path with a query, or a query alone."""
    from paydesk.engine.webhooks.signatures.mistakes import Recorded

    if not headers:
        raise WrongUsage("The request has no headers. Give it with its headers, as the receiver got it.")
    if url is None:
        return Recorded(headers, body, None, has_query=False)
    try:
        query = urlsplit(url).query if "?" in url or "://" in url or url.startswith("/") else url
    except ValueError:
        raise WrongUsage(f"{url!r} is no URL and no query.") from None
    values = parse_qs(query, keep_blank_values=True).get("data.id")
    return Recorded(headers, body, values[-1] if values else None)


def _without_pasted_newline(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return the body without the newline that editors and shells add to a text, unless Content-Length counts it."""
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and len(length) <= 12 and int(length) <= len(body):
        rest = body[int(length) :]
        return body[: int(length)] if not rest.strip() else body
    return body.removesuffix(b"\n").removesuffix(b"\r")


def _json(raw: bytes) -> dict[str, Any]:
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise WrongUsage("This begins like JSON, but it is not a JSON object.")
    return document


def _header_object(document: Mapping[str, Any]) -> dict[str, str]:
    headers = {}
    for name, value in document.items():
        one = value[-1] if isinstance(value, list) and value else value
        if not isinstance(one, str | int):
            raise WrongUsage(f"The header {name!r} in the JSON is not a text.")
        headers[str(name).lower()] = str(one)
    return headers
