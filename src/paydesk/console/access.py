"""The operations before sign-in: sign-in and sign-out, a new password by link, and the link of `paydesk dev`."""

from __future__ import annotations

from functools import partial

from paydesk.console import password, sign_in
from paydesk.console.request import PATH, SIGN_IN_PATH, ConsoleForm
from paydesk.core.errors import FORBIDDEN, NOT_FOUND, PROPERTY_VALUE, TOO_MANY_REQUESTS
from paydesk.oauth.errors import FORM_OUTDATED, SIGN_IN_FAILED, SIGN_IN_THROTTLED
from paydesk.operation import Operation, Query
from paydesk.operators import console_key, links
from paydesk.web import html

_page = partial(Operation, surface="console", transaction="none", media_type=html.HTML)
_shown = partial(_page, method="GET")
_sent = partial(_page, method="POST", status=303)

OPERATIONS: tuple[Operation, ...] = (
    _shown(
        path=SIGN_IN_PATH,
        name="console_sign_in_page",
        summary="Show the operators' sign-in form",
        handler=sign_in.show,
        further_statuses=(303,),
        query=(Query("return_to", {"type": "string"}, "The page of the console to open."),),
    ),
    _sent(
        path=SIGN_IN_PATH,
        name="console_sign_in",
        summary="Sign an operator in",
        handler=sign_in.sign_in,
        body=sign_in.SignIn,
        errors=(FORBIDDEN, FORM_OUTDATED, SIGN_IN_THROTTLED, SIGN_IN_FAILED),
    ),
    _sent(
        path=f"{PATH}/sign-out",
        name="console_sign_out",
        summary="Sign the operator out",
        handler=sign_in.sign_out,
        body=ConsoleForm,
        errors=(FORBIDDEN, FORM_OUTDATED),
    ),
    _shown(
        path=links.PATH,
        name="console_password_page",
        summary="Show the form for a new password",
        handler=password.show,
        query=(Query("link", {"type": "string"}, "The token of the link.", required=True),),
        errors=(password.LINK_NOT_VALID,),
    ),
    _sent(
        path=links.PATH,
        name="console_password",
        summary="Set a password with a link",
        handler=password.change,
        body=password.NewPassword,
        query=(Query("link", {"type": "string"}, "As in the body: the page can then be opened again."),),
        errors=(FORBIDDEN, FORM_OUTDATED, PROPERTY_VALUE, password.LINK_NOT_VALID),
    ),
    _shown(
        path=console_key.PATH,
        name="console_enter",
        summary="Open the console with the link that `paydesk dev` prints",
        handler=sign_in.enter,
        status=303,
        development=True,
        query=(Query("key", {"type": "string"}, "The key of the link.", required=True),),
        errors=(NOT_FOUND, TOO_MANY_REQUESTS),
    ),
)
