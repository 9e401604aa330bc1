"""`/console/account`: the operator's own account, sessions and password."""

from __future__ import annotations

from collections.abc import Mapping

from paydesk.console.actions import ActionForm, Done, act
from paydesk.console.field import Field
from paydesk.console.request import PATH, SIGN_IN_PATH, ConsoleRequest
from paydesk.console.screen import form, page, render, screen
from paydesk.core.version import version
from paydesk.operators.accounts.fields import MEANINGS
from paydesk.operators.sessions import rows as session_rows
from paydesk.platform.operation import Answer

ACCOUNT_PATH = f"{PATH}/account"
SECTION = "account"


@screen
async def show(request: ConsoleRequest) -> Answer:
    """Show the account with its sessions."""
    return render(
        request,
        "accounts/account.html",
        section=SECTION,
        title="Account",
        live_on="sessions",
        sessions=await session_rows.page_of(request, request.operator.operator_id, ACCOUNT_PATH),
        roles=MEANINGS,
        version=version(),
    )


@screen
async def end_sessions(request: ConsoleRequest) -> Answer:
    """End all sessions of the operator, also this one."""

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.delete("sessions")
        return Done("You are signed out everywhere.", path=SIGN_IN_PATH)

    says = ("All your sessions end, this one too: every browser must sign in again.",)
    return await act(request, ActionForm("Sign out everywhere", says, ACCOUNT_PATH, SECTION, permitted=True), work)


@screen
async def change_password(request: ConsoleRequest) -> Answer:
    """Change the operator's own password, with the current one."""

    async def work(sent: Mapping[str, str]) -> Done:
        body = {"current_password": sent["current"], "password": sent["password"]}
        await request.api.post("password", body=body)
        return Done("The password is changed. Sign in with the new one.", path=SIGN_IN_PATH)

    action = ActionForm(
        "Change your password",
        ("All your sessions end, this one too: sign in with the new password.",),
        ACCOUNT_PATH,
        SECTION,
        submit="Change the password",
        fields=(
            Field("current", "Current password", "password", maxlength=1024),
            Field("password", "New password", "password", hint="At least 12 characters; several unrelated words."),
        ),
        permitted=request.operator.email is not None,
    )
    return await act(request, action, work)


OPERATIONS = (
    page("/account", show, query=(session_rows.AFTER,)),
    *form("/account/sessions/end", end_sessions),
    *form("/account/password", change_password),
)
