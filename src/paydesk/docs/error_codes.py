"""The page of errors: the errors of each operation in the order of its checks, and what to do about each."""

from __future__ import annotations

from collections.abc import Iterable

from paydesk.api import OPERATIONS
from paydesk.core.errors import GONE, ErrorKind
from paydesk.docs.markdown import page, table
from paydesk.http.advice import ADVICE
from paydesk.http.openapi import errors_in_order, path_template
from paydesk.http.openapi_components import SURFACES
from paydesk.http.retired import DESCRIBED
from paydesk.operation import Operation

_ERRORS_HEAD = """\
# Errors

<!-- Written by `make generate` from the table of operations; changes made here are lost. -->

Each operation lists its errors in the order of its checks. The response reports the first check that fails, and all
errors in a body at once. The [last section](#every-error) says what each error means and what to do about it. The token
endpoints respond with a flat body, all other operations with a list under `errors`."""

_RETIRED_HEAD = """\
Operations of the earlier API respond with 410 `gone` before any other check, with the successor in the message and in a
`Link` header. For other paths below `/point/integration-api` the successor is `GET /docs`."""


def page_of_errors() -> str:
    """Return the page: the errors of every operation, then every error with what to do."""
    errors = [(row, errors_in_order(row)) for row in OPERATIONS]
    parts = [_ERRORS_HEAD]
    for surface, text in SURFACES.items():
        listed = [_errors_of(row, kinds) for row, kinds in errors if row.surface == surface and kinds]
        if listed:
            parts += [f"## {surface.capitalize()}", text, *listed]
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
            ((kind.status, f"`{kind.code}`", kind.message, ADVICE.get(kind.code, "")) for kind in every),
        ),
    )


def _errors_of(row: Operation, kinds: Iterable[ErrorKind]) -> str:
    mark = " (development only)" if row.development else ""
    numbered = "\n".join(f"{number}. {kind.status} `{kind.code}`" for number, kind in enumerate(kinds, 1))
    return f"### {row.method} {path_template(row)}{mark}\n\n{numbered}"


def _by_status(kind: ErrorKind) -> tuple[int, str, str]:
    return kind.status, kind.code, kind.message
