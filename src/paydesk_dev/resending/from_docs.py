"""`POST /dev/docs`: the button of a page of the documentation, which sends its request to this service.

The browser must have a session of the console. A request of operators or to a virtual terminal is sent as that
operator, one of applications with the test token of the credentials file; what changes something needs the role for
changes. The browser gets none of these credentials.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import quote, urlencode

from msgspec import Meta
from pydantic import Field

from paydesk.console.request import ConsoleRequest
from paydesk.core.errors import FORBIDDEN, NOT_FOUND, PROPERTY_VALUE
from paydesk.core.model import Model
from paydesk.core.response import Closed
from paydesk.platform import roles
from paydesk.platform.docs.pages import Page
from paydesk.platform.docs.site import AtHand, Site
from paydesk.platform.http.in_process import InProcess
from paydesk.platform.http.surfaces import JSON
from paydesk.platform.operation import Answer, Call, Surface
from paydesk.platform.rows import Rows
from paydesk_dev.credentials_file import KeptCredentials

SENT: tuple[Surface, ...] = ("application", "operator", "virtual", "public")
"""Not those of tokens: the answer has credentials."""
SIGN_IN = "Sign in at the console first: open the link that `paydesk dev` and `paydesk console` print. Then send again."


class SendPage(Model):
    """`POST /dev/docs`: the operation, and what was filled in."""

    operation: Annotated[str, Field(max_length=100)] = Field(description="The operation's id.")
    parameters: dict[str, Annotated[str, Field(max_length=500)]] = Field(
        default_factory=dict, description="Those of the path, the query and the headers; empty ones are left out."
    )
    body: Annotated[str, Field(max_length=32_000)] | None = Field(None, description="The body as text.")


class SentPage(Closed, frozen=True):
    """The answer of the service."""

    status: int
    headers: dict[str, str]
    body: Annotated[str, Meta(description="The body as text.")]


def at_hand(credentials: KeptCredentials) -> AtHand:
    """Return what the documentation shows of the credentials file, without its secrets."""

    def identifiers() -> Mapping[str, str]:
        document = credentials.document()
        terminals = document.get("terminals") or [{}]
        found = {
            "terminal_id": terminals[0].get("id"),
            "client_id": document.get("client_id"),
            "redirect_uri": document.get("redirect_uri"),
            "user_id": document.get("seller", {}).get("user_id"),
        }
        return {name: str(value) for name, value in found.items() if value}

    return AtHand(identifiers, frozenset(SENT))


async def send(call: Call) -> Answer:
    """Send the request of a page: as the operator of the session, or with the test token of the demo data."""
    sent, browser, site = call.body, ConsoleRequest(call), call.shared.objects[Site]
    if not await browser.open_session():
        raise FORBIDDEN.with_reason("not signed in at the console", message=SIGN_IN)
    await site.ready()
    page = site.pages.get(sent.operation.replace("_", "-"))
    if page is None or page.row is None or page.row.surface not in SENT:
        raise NOT_FOUND.with_reason("no such operation", "'$.operation' - is not the id of an operation with a page")
    if page.method != "GET":
        roles.check(browser.operator.role, (page.row.surface == "operator" and page.row.role) or "change")
    kept = call.shared.objects.get(KeptCredentials)
    credentials = kept.document() if kept is not None else {}
    target, headers = _request(page, sent.parameters)
    body = sent.body or ""
    access_token = str(credentials.get("test", {}).get("access_token", ""))
    token = {"operator": browser.token, "virtual": browser.token, "application": access_token}.get(page.row.surface)
    reply = await call.shared.objects[InProcess].request(
        page.method,
        target,
        address=call.address,
        headers={
            **headers,
            **({"authorization": f"Bearer {token}"} if token else {}),
            **({"content-type": JSON} if body else {}),
        },
        body=body.encode(),
    )
    return Answer(200, SentPage(reply.status, dict(reply.headers), reply.body.decode("utf-8", "replace")))


def _request(page: Page, given: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the path with its query, and the headers, of the parameters that the operation has."""
    path, query, headers = page.path, dict[str, str](), dict[str, str]()
    for where, members in page.parameters:
        for one in members:
            value = given.get(one.path, "")
            if where == "path" and "/" in value:
                detail = f"'$.parameters.{one.path}' - must not contain /"
                raise PROPERTY_VALUE.with_reason("another path", detail)
            if where == "path":
                path = path.replace(f"{{{one.path}}}", quote(value, safe="") or "-")
            elif value and where == "query":
                query[one.path] = value
            elif value and value.isprintable():
                headers[one.path.lower()] = value
    return path + (f"?{urlencode(query)}" if query else ""), headers


OPERATIONS = (
    Rows("public", development=True).post(
        "/dev/docs", "docs_send", send, answer=SentPage, body=SendPage, transaction="none", errors=(NOT_FOUND,)
    ),
)
