"""The operations before sign-in: sign-in and sign-out, a password by link, and the links that open the console."""

from __future__ import annotations

from functools import partial

from paydesk.console.request import PATH, SIGN_IN_PATH, ConsoleForm
from paydesk.core.errors import FORBIDDEN, FORM_OUTDATED, PROPERTY_VALUE
from paydesk.engine.sellers.errors import SIGN_IN_FAILED, SIGN_IN_THROTTLED
from paydesk.operators.accounts import links
from paydesk.operators.sign_in import page as sign_in
from paydesk.operators.sign_in import password
from paydesk.platform.operation import Answer, Call, Operation, Query
from paydesk.platform.web import html

_page = partial(Operation, surface="console", transaction="none", media_type=html.HTML)
_RETURN_TO = Query("return_to", {"type": "string"}, "The page of the console to open.")
_LINK = Query("link", {"type": "string"}, "The token of the link.", required=True)


async def root(_: Call) -> Answer:
    """Redirect to the console."""
    return html.redirect(PATH)


OPERATIONS: tuple[Operation, ...] = (
    _page("GET", "/", "console_root", handler=root, status=303, is_constant=True),
    _page(
        "GET",
        SIGN_IN_PATH,
        "console_sign_in_page",
        handler=sign_in.show,
        further_statuses=(303,),
        query=(_RETURN_TO,),
    ),
    _page(
        "POST",
        SIGN_IN_PATH,
        "console_sign_in",
        handler=sign_in.sign_in,
        status=303,
        body=sign_in.SignIn,
        errors=(FORBIDDEN, FORM_OUTDATED, SIGN_IN_THROTTLED, SIGN_IN_FAILED),
    ),
    _page(
        "POST",
        f"{PATH}/sign-out",
        "console_sign_out",
        handler=sign_in.sign_out,
        status=303,
        body=ConsoleForm,
        errors=(FORBIDDEN, FORM_OUTDATED),
    ),
    _page(
        "GET",
        links.PATH,
        "console_password_page",
        handler=password.show,
        query=(_LINK,),
        errors=(password.LINK_NOT_VALID,),
    ),
    _page(
        "POST",
        links.PATH,
        "console_password",
        handler=password.change,
        status=303,
        body=password.NewPassword,
        query=(Query("link", {"type": "string"}, "As in the body: the page can then be opened again."),),
        errors=(FORBIDDEN, FORM_OUTDATED, PROPERTY_VALUE, password.LINK_NOT_VALID),
    ),
)
