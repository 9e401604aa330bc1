"""The page of errors: what all operations share, what each adds, and for every error what to do and when to repeat."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from paydesk.core import errors
from paydesk.core.errors import GONE, PROPERTY_VALUE, ErrorKind, Fault, Refusal
from paydesk.platform.http.error_body import listed
from paydesk.platform.http.openapi.components import SURFACES
from paydesk.platform.http.openapi.document import errors_in_order, path_template
from paydesk.platform.http.refusals.error_responses import shared_errors
from paydesk.platform.operation import Operation
from paydesk_dev.api import API
from tools.docs.markdown import page, table

_HEAD = """\
# Errors

<!-- Written by `make generate` from the table of operations; changes made here are lost. -->

The response reports the first check that fails, and all errors in a body at once.

## The body

Every error is JSON, those of the server itself (408, 431, malformed HTTP) included:

```json
{example}
```

- `errors` has all errors. `code` is stable: compare it. `message` and `details` are for people and may change.
- `error`, `status` and `message` describe the first error, with its first detail, for clients that keep nothing else.
  On 401 `message` is `authorization value not present` or `invalid access token`.
- `cause` has a sentence for each detail. Official clients keep it as `causes`.

The token endpoints respond with a flat body: `error` is the code, `message` and `error_description` are the same
sentence, and `cause` is empty. An error code has one sentence, so that a guess reveals nothing; only that of
`invalid_request` names what is wrong.

## Repeat a request

`repeat`, in the [table of errors](#every-error) and as `x-repeat` in the OpenAPI documents, says when the **same
request with the same `X-Idempotency-Key`** may succeed. A refusal does not use up the key; only a declined
refund does."""
_REPEAT = (
    (
        "now",
        "Unknown: one effect or none, as after a timeout or a lost connection.",
        "Repeat after 1 s, then with growing pauses: the effect happens once. Never use a new key.",
    ),
    (
        "later",
        "Nothing: another order, a limit or a setting prevents it.",
        "Repeat when that has changed: after `Retry-After`, or when the terminal is free.",
    ),
    (
        "never",
        "Nothing.",
        "Do not repeat it unchanged. Correct the request, its token or the account; then the key is good, but after a"
        " declined refund.",
    ),
)
_SHARED_HEAD = """\
A terminal repeats a *result* whatever the error is, until [the service has it](build-a-terminal.md#result).

## Shared errors

Checked in this order; [retired operations](migrate.md#operations) are 410 `gone` before. The errors of
[each operation](#errors-of-each-operation) come before 500 and 503."""

_SHARED = (
    (errors.URI_TOO_LONG, "all, before any other check"),
    (errors.HEADERS_TOO_LARGE, "all, before any other check"),
    (errors.BAD_REQUEST, "all"),
    (errors.MISDIRECTED_REQUEST, "all but health checks and metrics"),
    (errors.NOT_FOUND, "an unknown path"),
    (errors.METHOD_NOT_ALLOWED, "another method of a known path; `Allow` has the known ones"),
    (errors.PAYLOAD_TOO_LARGE, "with a body"),
    (errors.UNSUPPORTED_MEDIA_TYPE, "with a body"),
    (errors.REQUEST_TIMEOUT, "with a body"),
    (errors.UNSUPPORTED_HEADER, "all"),
    (errors.UNAUTHORIZED, "with a token"),
    (errors.FORBIDDEN, "applications; operators whose role only reads; development"),
    (errors.TOO_MANY_REQUESTS, "with a token"),
    (errors.INSUFFICIENT_SCOPE, "with a scope"),
    (errors.EMPTY_REQUIRED_HEADER, "with an idempotency key"),
    (errors.INVALID_IDEMPOTENCY_KEY_LENGTH, "with an idempotency key"),
    (errors.INVALID_PATH_PARAM, "with an id in the path"),
    (errors.JSON_SYNTAX_ERROR, "with a JSON body"),
    (errors.REQUIRED_PROPERTIES, "with a JSON body"),
    (errors.UNSUPPORTED_PROPERTIES, "with a JSON body; search"),
    (errors.PROPERTY_TYPE, "with a JSON body"),
    (errors.PROPERTY_VALUE, "with a JSON body or parameters"),
    (errors.MINIMUM_ITEMS, "with an array in the body"),
    (errors.MAXIMUM_ITEMS, "with an array in the body"),
    (errors.MINIMUM_PROPERTIES, "with required fields"),
    (errors.IDEMPOTENCY_KEY_ALREADY_USED, "with an idempotency key"),
    (errors.RESOURCE_LOCKED, "with an idempotency key"),
    (errors.INTERNAL_ERROR, "all"),
    (errors.SERVICE_UNAVAILABLE, "all that use the database"),
)
"""The errors that the endpoint answers, in the order of its checks, and for which requests."""

_NOTES = {
    "token": "`invalid_request` stands for 413, 415, `unsupported_header` and the errors of a body.",
    "device": "A result is never refused for its body: an unreadable one is recorded, as 409 `result_conflict`.",
    "operator": "Not repeated below: `property_value` for parameters, and the 404 of the id in the path, such as"
    " `order_not_found`.",
}


def page_of_errors() -> str:
    """Return the page: the errors that operations share, those of each, then every error with what to do."""
    kinds = [(row, errors_in_order(row)) for row in API.documented]
    parts = [
        _HEAD.replace("{example}", _example()),
        table(("`repeat`", "What happened", "What a till does by itself"), _REPEAT),
        _SHARED_HEAD,
        table(("Requests", "Errors"), _shared(kinds)),
        "## Errors of each operation",
        "In the order of the checks. An operation that is missing has the shared ones alone; * is in development only.",
    ]
    for surface in SURFACES:
        rows = [(row, own) for row, every in kinds if row.surface == surface and (own := _own(row, every))]
        if rows:
            parts += [f"### {surface.capitalize()}", *([_NOTES[surface]] if surface in _NOTES else [])]
            parts.append("\n".join(f"- {_named(row)}: {_codes(own)}" for row, own in rows))
    every = {GONE, *(kind for kind, _ in _SHARED), *(kind for _, some in kinds for kind in some)}
    parts += ["## Every error", table(("Error", "`repeat`", "Message, and **what to do**"), _alike(every))]
    return page(*parts)


def _alike(kinds: Iterable[ErrorKind]) -> Iterator[tuple[str, str, str]]:
    """Yield a row for the kinds of a status with the same advice; the messages of several say what their codes do."""
    alike: dict[tuple[int, str, str], list[ErrorKind]] = {}
    for kind in sorted(kinds, key=_by_status):
        alike.setdefault((kind.status, kind.advice or kind.code, kind.repeat), []).append(kind)
    for (status, _, repeat), group in alike.items():
        message = f"{group[0].what_happened} " if len(group) == 1 else ""
        advice = f"**{group[0].advice}**" if group[0].advice else ""
        yield f"{status} {_codes(group)}", repeat, f"{message}{advice}".strip()


def _shared(rows: Iterable[tuple[Operation, Sequence[ErrorKind]]]) -> Iterable[tuple[str, str]]:
    """Yield the rows of the shared errors; no operation may check them in another order."""
    order = [kind for kind, _ in _SHARED]
    for row, _ in rows:
        places = [order.index(kind) for kind in shared_errors(row)]
        assert places == sorted(places), row.name
    for where, group in groupby(_SHARED, lambda one: one[1]):
        yield where, ", ".join(f"{kind.status} `{kind.code}`" for kind, _ in group)


def _example() -> str:
    fault = Fault(PROPERTY_VALUE, "'$.transactions.payments[0].amount' - must be above zero")
    return json.dumps(listed(Refusal(PROPERTY_VALUE, "an example", faults=(fault,))), indent=2)


def _own(row: Operation, kinds: Sequence[ErrorKind]) -> tuple[ErrorKind, ...]:
    omitted = set(shared_errors(row))
    if row.surface == "operator":
        omitted |= {PROPERTY_VALUE, errors.MINIMUM_PROPERTIES}
        omitted |= {next((kind for kind in kinds if kind.status == 404 and "{" in row.path), PROPERTY_VALUE)}
    return tuple(kind for kind in kinds if kind not in omitted)


def _named(row: Operation) -> str:
    return f"`{row.method} {path_template(row)}`{'*' if row.development else ''}"


def _codes(kinds: Sequence[ErrorKind]) -> str:
    return ", ".join(f"`{kind.code}`" for kind in kinds)


def _by_status(kind: ErrorKind) -> tuple[int, str, str]:
    return kind.status, kind.code, kind.message
