"""The page of errors: every operation with its refusals in the order of the checks, and what to do about each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from paydesk.api import OPERATIONS
from paydesk.core.errors import GONE, ErrorKind
from paydesk.docs.tables import table
from paydesk.http.advice import advice
from paydesk.http.openapi import errors_in_order, path_template
from paydesk.http.openapi_components import SURFACES
from paydesk.http.retired import DESCRIBED, Retired
from paydesk.operation import Operation

_ERRORS_HEAD = """\
# Errors

<!-- Written by `make generate` from the table of operations; changes made here are lost. -->

The checks of an operation are made in the order of its list, and the first that fails answers; only the faults of a
body are told all at once. The [last section](#every-error) says what each error means and what to do about it. The
token endpoints answer a flat body, everything else a list under `errors`."""

_RETIRED_HEAD = """\
Operations of the earlier interface answer 410 `gone` before anything else is looked at, with their successor's name in
the message and a `Link` to it. Whatever else is asked below `/point/integration-api` is sent to `GET /docs`."""


def page(operations: Iterable[Operation] = OPERATIONS) -> str:
    """Every operation with its errors in the order of the checks, then every error with what to do."""
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
        ((kind.status, f"`{kind.code}`", kind.message, advice(kind)) for kind in sorted(kinds, key=_by_status)),
    )


def _by_status(kind: ErrorKind) -> tuple[int, str, str]:
    return kind.status, kind.code, kind.message
