"""The HTML reference, generated from the tables of operations and of notifications.

The page needs no script and no other host: its style sheet and icon are served beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from paydesk import __version__
from paydesk.platform.http.openapi import document as openapi
from paydesk.platform.http.openapi import fields
from paydesk.platform.http.openapi.components import IDEMPOTENCY_KEY, SECURITY_SCHEMES, SURFACES
from paydesk.platform.http.openapi.notifications import Webhook
from paydesk.platform.http.refusals.retired import DESCRIBED
from paydesk.platform.http.surfaces import JSON, POLICIES
from paydesk.platform.operation import Answer, Call, Operation
from paydesk.platform.rows import Rows
from paydesk.platform.web import assets, html, language

if TYPE_CHECKING:
    from markupsafe import Markup

PACKAGE = "paydesk.platform.http.openapi"
PAGE_HEADERS = (
    ("content-security-policy", f"{html.POLICY}; form-action 'none'"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("cache-control", "no-cache"),
)
_CODE = re.compile("`([^`]+)`")
_PUBLIC = Rows("public", transaction="none", is_constant=True)


def rows(operations: Iterable[Operation], webhooks: Sequence[Webhook]) -> tuple[Operation, ...]:
    """Return the operations that serve the page, which describes all these and itself."""
    described = tuple(operations)

    @cache
    def page() -> Answer:
        return Answer(200, render((*described, *served), webhooks).encode(), PAGE_HEADERS, html.HTML)

    async def show_page(_: Call) -> Answer:
        """Show the API reference."""
        return page()

    served = (
        _PUBLIC.get("/docs", "docs", show_page, media_type=html.HTML),
        *assets.operations(PACKAGE),
    )
    return served


def render(operations: Iterable[Operation], webhooks: Sequence[Webhook]) -> str:
    """Render the reference as one HTML page, without the operations for its assets."""
    listed = [row for row in operations if not row.path.startswith(assets.PATH)]
    environment = html.environment(PACKAGE)
    environment.filters |= {"pretty": _pretty, "marked": _marked}
    groups = [
        (name, text, [row for row in listed if row.surface == name])
        for name, text in SURFACES.items()
        if any(row.surface == name for row in listed)
    ]
    return environment.get_template("reference.html").render(
        t=language.texts("en"),
        version=__version__,
        groups=groups,
        webhooks=webhooks,
        webhook_fields=fields.rows_of,
        retired=DESCRIBED,
        path=openapi.path_template,
        fields=fields.rows,
        curl=curl,
        errors=openapi.errors_in_order,
        error_example=openapi.error_example,
        idempotency_key=IDEMPOTENCY_KEY,
    )


def curl(operation: Operation) -> str:
    """Return the operation as a curl command, with shell variables for the reader's own values."""
    lines = [f'curl -X {operation.method} "$BASE_URL{openapi.path_template(operation).replace("{", "${")}"']
    if operation.surface in SECURITY_SCHEMES:
        variable = {"device": "DEVICE_TOKEN", "operator": "OPERATOR_TOKEN"}.get(operation.surface, "ACCESS_TOKEN")
        lines.append(f'-H "Authorization: Bearer ${variable}"')
    if operation.idempotent:
        lines.append('-H "X-Idempotency-Key: $(uuidgen)"')
    example = fields.example(operation.body) if operation.body is not None else None
    if JSON not in POLICIES[operation.surface].media_types:
        lines += [f"--data-urlencode '{name}={value}'" for name, value in (example or {}).items()]
    elif example:
        lines += ['-H "Content-Type: application/json"', f"-d '{_pretty(example)}'"]
    return " \\\n  ".join(lines)


def _marked(text: str) -> Markup:
    """Return the text with its backticks rendered as code."""
    from markupsafe import Markup, escape

    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped in the line itself


def _pretty(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False)
