"""The page of errors: the errors of each operation in the order of its checks, and what to do about each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from paydesk.api import OPERATIONS
from paydesk.core.errors import GONE, ErrorKind
from paydesk.docs.tables import table
from paydesk.http.advice import ADVICE
from paydesk.http.openapi import errors_in_order, path_template
from paydesk.http.openapi_components import SURFACES
from paydesk.http.retired import DESCRIBED, Retired
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


def page(operations: Iterable[Operation] = OPERATIONS) -> str:
    """Return the page: the errors of every operation, then every error with what to do."""
    rows = tuple(operations)
    lines = [_ERRORS_HEAD]
    for surface, text in SURFACES.items():
        listed = [row for row in rows if row.surface == surface and errors_in_order(row)]
        if listed:
            lines += ["", f"## {surface.capitalize()}", "", text]
            for row in listed:
                lines += ["", *_errors_of(row)]
    lines += ["", "## Retired", "", _RETIRED_HEAD, "", *table(("Earlier", "Now"), map(_retired, DESCRIBED))]
    return "\n".join([*lines, "", "## Every error", "", *_glossary(rows)]) + "\n"


def _retired(row: Retired) -> tuple[str, str]:
    return f"`{row.method} {row.path}`", f"`{row.successor}`"


def _errors_of(row: Operation) -> Iterator[str]:
    mark = " (development only)" if row.development else ""
    yield f"### {row.method} {path_template(row)}{mark}"
    yield ""
    for number, kind in enumerate(errors_in_order(row), 1):
        yield f"{number}. {kind.status} `{kind.code}`"


def _glossary(rows: Sequence[Operation]) -> Iterator[str]:
    kinds = {GONE, *(kind for row in rows for kind in errors_in_order(row))}
    yield from table(
        ("HTTP", "Code", "Message", "What to do"),
        (
            (kind.status, f"`{kind.code}`", kind.message, ADVICE.get(kind.code, ""))
            for kind in sorted(kinds, key=_by_status)
        ),
    )


def _by_status(kind: ErrorKind) -> tuple[int, str, str]:
    return kind.status, kind.code, kind.message
