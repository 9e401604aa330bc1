"""The request of an operator's browser: its session, its form, and the client of `/operator/v1` for the operator."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import quote, urlsplit

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from paydesk.console.api import Api, ApiRefused, Document
from paydesk.console.sessions import OPERATORS, Session
from paydesk.core.errors import FORM_OUTDATED
from paydesk.platform import roles
from paydesk.platform.operation import Answer, Call
from paydesk.platform.roles import Required
from paydesk.platform.web import html
from paydesk.platform.web.forms import BACKGROUND, BrowserRequest, Header

PATH = "/console"
SIGN_IN_PATH, EVENTS_PATH = f"{PATH}/sign-in", f"{PATH}/events"
SESSION, NOTICE = "paydesk_operator", "paydesk_notice"
PURPOSE = "console"
NOTICE_SECONDS = 60
NOTICE_BYTES_MAX = 2700
"""Maximum of a notice as JSON: in base64, a browser keeps it in a cookie of 4 KiB."""


class ConsoleForm(BaseModel):
    """The fields of any form of the console: texts, which the operation of `/operator/v1` validates."""

    LINES_ALLOWED: ClassVar[frozenset[str]] = frozenset({"headers", "body", "redirect_uris", "was:redirect_uris"})
    """The fields with texts of several lines; `was:` is before the name of one that has the value shown at first."""
    AS_TYPED: ClassVar[frozenset[str]] = frozenset({"current", "password"})
    """The fields whose spaces count."""

    model_config = ConfigDict(extra="allow")

    form_token: str = Field(max_length=100, description="From the page with the form.")

    @property
    def fields(self) -> dict[str, str]:
        """The sent fields but for the token, without spaces around them; passwords as they were typed."""
        sent = {name: str(value) for name, value in (self.model_extra or {}).items()}
        return {name: value if name in self.AS_TYPED else value.strip() for name, value in sent.items()}


class Notice(msgspec.Struct, frozen=True):
    """The result of an action, shown once on the next page."""

    text: str
    tone: str = "ok"

    def encoded(self) -> bytes:
        """Return the notice as JSON; a text that is too long for a cookie ends with an ellipsis."""
        whole = msgspec.json.encode(self)
        if len(whole) <= NOTICE_BYTES_MAX:
            return whole

        def cut(length: int) -> bytes:
            return msgspec.json.encode(Notice(f"{self.text[:length]}…", self.tone))

        return cut(bisect_right(range(len(self.text)), NOTICE_BYTES_MAX, key=lambda length: len(cut(length))) - 1)


@dataclass(frozen=True, slots=True)
class Additions:
    """Content beside that of the pages themselves. The development kit has additions, production has none."""

    at: Mapping[str, Callable[[ConsoleRequest, Document], str]] = field(default_factory=dict)
    """By the place, which the template names: returns the HTML about the document that is shown there."""
    sections: tuple[tuple[str, str, str, str], ...] = ()
    """Further sections of the navigation: name, title, path, icon."""


NO_ADDITIONS = Additions()


class ConsoleRequest(BrowserRequest):
    """A request to a page of the console. `session` is None before sign-in."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.call = call
        self.session: Session | None = None
        self.position = ""
        """The id from which the page follows the hints."""
        self.development = call.shared.development
        self.additions = call.shared.objects.get(Additions) or NO_ADDITIONS
        # Browsers send the cookies of one host to all its ports.
        port = urlsplit(f"//{call.headers.get('host', '')}").port if self._is_host_sound(call) else None
        own = "" if self._is_secure else f"_{port or 80}"
        self.cookie_name, self._notice_name = f"{SESSION}{own}", f"{NOTICE}{own}"

    # The session. -----------------------------------------------------------------------------------------------------

    async def open_session(self) -> bool:
        """Find the session of this browser, and record its use unless the page only fetches what has changed."""
        if not self.token:
            return False
        idle_ms = self.call.settings.session_idle_minutes * 60_000
        self.session = await OPERATORS.opened(
            self.call.database, self.token, self.now_ms, idle_ms=idle_ms, is_use=not self.is_background
        )
        return self.session is not None

    @property
    def token(self) -> str:
        """The session's token from the cookie, valid or not; empty if there is none."""
        return self.cookie(self.cookie_name)

    @property
    def operator(self) -> Session:
        """The session, on pages that need one."""
        assert self.session is not None, "screens are shown to operators who are signed in"
        return self.session

    def permits(self, required: Required) -> bool:
        """Return whether the operator's role permits what requires `required`."""
        return roles.permits(self.operator.role, required)

    @property
    def may_change(self) -> bool:
        """Whether the operator's role permits changes."""
        return self.permits("change")

    @property
    def is_owner(self) -> bool:
        """Whether the operator may change operators, and see the sessions of others."""
        return self.permits("owner")

    @property
    def may_resend(self) -> bool:
        """Whether the operator's role permits to send notifications again."""
        return self.permits("resend")

    @property
    def api(self) -> Api:
        """The client of `/operator/v1` for this operator."""
        return Api.of(self.call, self.token)

    def refusal(self, status: int, code: str, message: str, *details: str) -> ApiRefused:
        """Return an error that the console finds itself, as the operator's requests would have it."""
        return ApiRefused(status, code, message, details, self.call.request_id)

    def to_sign_in(self) -> Answer:
        """Return the redirect to the sign-in page, which leads back here. A form has the same path as its page."""
        address = f"{SIGN_IN_PATH}?return_to={quote(self.call_target, safe='')}"
        if self.is_fragment:
            return Answer(401, None, (("hx-redirect", address), ("cache-control", "no-store")), html.HTML)
        return html.redirect(address)

    def followed_by_script(self, answer: Answer) -> Answer:
        """Return the answer to a form; one that the page's script sent names the next page in a header.

        A browser would follow a redirect before the script sees it, and the next page would have shown its notice.
        """
        if not self.is_fragment or not self.is_sent or answer.status != 303:
            return answer
        headers = [("hx-redirect" if name == "location" else name, value) for name, value in answer.headers]
        return Answer(200, None, tuple(headers), html.HTML)

    # The request. -----------------------------------------------------------------------------------------------------

    @property
    def call_target(self) -> str:
        """The path and query of this page."""
        path, query = quote(self.call.target), self.call.query_string
        return f"{path}?{query}" if query else path

    @property
    def path(self) -> str:
        """The last id in the path."""
        return self.call.path

    def addition(self, place: str, document: Document) -> str:
        """Return the HTML that is added about a document at a place of the page; empty if there is none."""
        add = self.additions.at.get(place)
        return add(self, document) if add is not None else ""

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters of the address."""
        return self.call.query

    @property
    def is_fragment(self) -> bool:
        """Whether the page's script requests a part of a page."""
        return "hx-request" in self.call.headers

    @property
    def is_background(self) -> bool:
        """Whether the page sent this by itself; browsers also reopen the stream of hints by themselves."""
        return BACKGROUND in self.call.headers or self.call.target == EVENTS_PATH

    @property
    def sent(self) -> dict[str, str]:
        """The fields of the form; empty unless this is the request of a form."""
        return self.call.body.fields if isinstance(self.call.body, ConsoleForm) else {}

    @property
    def is_sent(self) -> bool:
        """Whether this is the request of a form."""
        return isinstance(self.call.body, ConsoleForm)

    def check_form(self) -> None:
        """Refuse a form of another site or session. Raises FORBIDDEN, FORM_OUTDATED."""
        self.check_origin()
        form = self.call.body
        assert isinstance(form, ConsoleForm), "operations with a form have this model"
        if not self.is_form_token_valid(PURPOSE, form.form_token, self.cookie_name):
            raise FORM_OUTDATED.with_reason("form token or its cookie is invalid")

    def own_form_token(self) -> str:
        """Return the token of all forms of this session."""
        return self.form_token(PURPOSE, self.token)

    # Notices. ---------------------------------------------------------------------------------------------------------

    def with_notice(self, path: str, text: str, tone: str = "ok") -> Answer:
        """Return the redirect to a page that shows a notice once. The notice must not contain a secret."""
        value = base64.urlsafe_b64encode(Notice(text, tone).encoded()).decode()
        return html.redirect(path, (self.set_cookie(self._notice_name, value, NOTICE_SECONDS),))

    def take_notice(self) -> tuple[Notice | None, tuple[Header, ...]]:
        """Return the notice for this page, and the header that deletes it."""
        value = self.cookie(self._notice_name)
        if not value or self.is_fragment:
            return None, ()
        try:
            notice = msgspec.json.decode(base64.urlsafe_b64decode(value), type=Notice)
        except (ValueError, msgspec.DecodeError):
            notice = None
        return notice, (self.set_cookie(self._notice_name, "", 0),)

    @staticmethod
    def _is_host_sound(call: Call) -> bool:
        """Return whether the port in `Host` is a number; the name was checked before."""
        port = call.headers.get("host", "").rpartition("]")[2].partition(":")[2]
        return port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65_536
