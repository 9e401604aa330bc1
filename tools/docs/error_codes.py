"""The page of errors: the errors of each operation in the order of its checks, and what to do about each."""

from __future__ import annotations

import json
from collections.abc import Iterable

from paydesk.core.errors import GONE, PROPERTY_VALUE, ErrorKind, Fault, Refusal
from paydesk.platform.http.error_body import listed
from paydesk.platform.http.openapi.components import SURFACES
from paydesk.platform.http.openapi.document import errors_in_order, path_template
from paydesk.platform.http.refusals.retired import DESCRIBED
from paydesk.platform.operation import Operation
from paydesk_dev.api import API
from tools.docs.markdown import page, table

_ERRORS_HEAD = """\
# Errors

<!-- Written by `make generate` from the table of operations; changes made here are lost. -->

Each operation lists its errors in the order of its checks. The response reports the first check that fails, and all
errors in a body at once. The [last section](#every-error) says what each error means and what to do about it.

## The body

Every error is JSON, those of the server itself (408, 431, malformed HTTP) included:

```json
{example}
```

- `errors` has all errors. `code` is stable: compare it. `message` and `details` are for people and may change.
- `error`, `status` and `message` describe the first error for clients that keep nothing else: `message` has the first
  detail too. On 401 `message` is either `authorization value not present` or `invalid access token`.
- `cause` has a sentence for each detail. Official clients keep it as `causes`.

The token endpoints respond with a flat body: `error` is the code, `message` and `error_description` are the same
sentence, and `cause` is empty. There is one sentence for each code, so that a guess reveals nothing; only that of
`invalid_request` names the parameter that is missing, unknown, repeated or malformed, or a wrong `Content-Type`."""

_RETIRED_HEAD = """\
Operations of the earlier API respond with 410 `gone` before any other check, with the successor in the message and in a
`Link` header; another method on such a path is 405. For other paths below
`/point/integration-api` the successor is `GET /docs`."""


def page_of_errors() -> str:
    """Return the page: the errors of every operation, then every error with what to do."""
    errors = [(row, errors_in_order(row)) for row in API.documented]
    parts = [_ERRORS_HEAD.replace("{example}", _example())]
    for surface, text in SURFACES.items():
        sections = [_errors_of(row, kinds) for row, kinds in errors if row.surface == surface and kinds]
        if sections:
            parts += [f"## {surface.capitalize()}", text, *sections]
    retired = ((f"`{row.method} {row.path}`", f"`{row.successor}`") for row in DESCRIBED)
    every = sorted({GONE, *(kind for _, kinds in errors for kind in kinds)}, key=_by_status)
    return page(
        *parts,
        "## Retired",
        _RETIRED_HEAD,
        table(("Earlier", "Now"), retired),
        "## Every error",
        table(
            ("HTTP", "Code", "Message", "What to do"),
            ((kind.status, f"`{kind.code}`", kind.message, kind.advice) for kind in every),
        ),
    )


def _example() -> str:
    fault = Fault(PROPERTY_VALUE, "'$.transactions.payments[0].amount' - must be above zero")
    return json.dumps(listed(Refusal(PROPERTY_VALUE, "an example", faults=(fault,))), indent=2)


def _errors_of(row: Operation, kinds: Iterable[ErrorKind]) -> str:
    mark = " (development only)" if row.development else ""
    numbered = "\n".join(f"{number}. {kind.status} `{kind.code}`" for number, kind in enumerate(kinds, 1))
    return f"### {row.method} {path_template(row)}{mark}\n\n{numbered}"


def _by_status(kind: ErrorKind) -> tuple[int, str, str]:
    return kind.status, kind.code, kind.message
