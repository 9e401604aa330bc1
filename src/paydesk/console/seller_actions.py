"""What an operator does about sellers: add, change, set a new password, suspend, resume, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from paydesk.console.actions import ActionForm, Done, Field, act, differing
from paydesk.console.api import ApiRefused, Document
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.console.store_actions import NO_UNDO, SECTION, seller_path
from paydesk.core.ids import NUMBER_PATTERN
from paydesk.core.money import CURRENCIES
from paydesk.operation import Answer
from paydesk.operators.schemas import PASSWORD_CHARACTERS_MAX, PASSWORD_CHARACTERS_MIN

HERE = f"{PATH}/sellers"
PASSWORD_LABEL = "Password"  # noqa: S105 - a label
SHOWN_ONCE = "The password is shown once. If it is lost, make a new one: it replaces this one."
_CURRENCIES = (("", "Choose one"), *((one.code, f"{one.code} ({one.country})") for one in CURRENCIES.values()))
_CURRENCY_OF = {one.country: one.code for one in CURRENCIES.values()}
_COUNTRIES = (("", "Choose one"), *((country, country) for country in sorted(_CURRENCY_OF)))
_NAME = Field("name", "Name", maxlength=100)
_PASSWORD = Field(
    "password",
    "Password",
    "password",
    required=False,
    maxlength=PASSWORD_CHARACTERS_MAX,
    hint=(
        "Empty: one is generated, and shown once. Your own needs at least"
        f" {PASSWORD_CHARACTERS_MIN} characters, best several unrelated words."
    ),
)
_EMAIL_HINT = "To sign in with. No e-mail is sent to it."


@screen
async def add(request: ConsoleRequest) -> Answer:
    """Add a seller, and show the password once if it was generated."""
    action = ActionForm(
        "Add a seller",
        (
            "The seller gets an account, with which to authorize applications. Terminals are paired with it, and take"
            " its orders.",
        ),
        HERE,
        SECTION,
        "Add the seller",
        (
            _NAME,
            Field("email", "E-mail address", "email", maxlength=254, hint=_EMAIL_HINT),
            Field(
                "country",
                "Country",
                "select",
                options=_COUNTRIES,
                hint="By ISO 3166-1. Any other: paydesk sellers create",
            ),
            Field(
                "currency",
                "Currency",
                "select",
                options=_CURRENCIES,
                hint="Of all orders. Country and currency cannot be changed later.",
            ),
            _PASSWORD,
        ),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        currency = _CURRENCY_OF.get(sent["country"], sent["currency"])
        if sent["currency"] in CURRENCIES and sent["currency"] != currency:
            message, detail = "This is another country's currency.", f"'currency' - of {sent['country']} is {currency}"
            raise ApiRefused(400, "property_value", message, (detail,), request.call.request_id)
        body = {
            "name": sent["name"],
            "email": sent["email"],
            "country": sent["country"],
            "currency": sent["currency"],
            **_given(sent),
        }
        made = await request.api.post("sellers", body=body)
        path = seller_path(made["user_id"])
        if "password" not in made:
            return Done(f"{made['name']} is added, and signs in with {made['email']} and the password.", path)
        text = f"{made['name']} is added. Pass this password on: the seller signs in with it and {made['email']}."
        return Done(text, path, made["password"], PASSWORD_LABEL, SHOWN_ONCE)

    return await act(request, action, work)


@screen
async def change(request: ConsoleRequest) -> Answer:
    """Change the name or the e-mail address of a seller."""
    seller = await request.api.get("sellers/{}", request.path)
    action = _about(
        seller,
        f"Change {seller['name']}",
        "The seller signs in with the new e-mail address from now on, and stays signed in.",
        "Country and currency cannot change, because orders depend on them.",
        fields=(
            Field("name", "Name", value=seller["name"], maxlength=100),
            Field("email", "E-mail address", "email", seller["email"], maxlength=254, hint=_EMAIL_HINT),
        ),
        submit="Save",
        repeatable=True,
        is_change=True,
    )

    async def work(sent: Mapping[str, str]) -> Done:
        wanted = differing(action, sent)
        if not wanted:
            return Done("Nothing has changed.")
        changed = await request.api.patch("sellers/{}", seller["user_id"], body=wanted)
        return Done(f"{changed['name']} is changed.")

    return await act(request, action, work)


@screen
async def new_password(request: ConsoleRequest) -> Answer:
    """Replace the password of a seller, and show it once if it was generated."""
    seller = await request.api.get("sellers/{}", request.path)
    name = seller["name"]
    action = _about(
        seller,
        f"New password for {name}",
        f"The password that {name} has now is refused at once, and all sessions of the seller end.",
        fields=(
            _PASSWORD,
            Field(
                "withdraw_all",
                "Withdraw all authorizations",
                "checkbox",
                required=False,
                hint=(
                    "For a password that others may know: they may have authorized an application. The tokens of all"
                    " applications for the seller are refused, and each must be authorized again. Otherwise"
                    " applications keep their tokens."
                ),
            ),
        ),
        submit="Set the password",
    )

    async def work(sent: Mapping[str, str]) -> Done:
        body = {**_given(sent), "withdraw_all": bool(sent.get("withdraw_all"))}
        made = await request.api.post("sellers/{}/password", seller["user_id"], body=body)
        about = _authorizations(made)
        if "password" not in made:
            return Done(f"{name} has the new password, and is signed out everywhere. {about}")
        text = f"Pass this password on: {name} signs in with it and {made['email']}. All sessions have ended. {about}"
        return Done(text, "", made["password"], PASSWORD_LABEL, SHOWN_ONCE)

    return await act(request, action, work)


@screen
async def suspend(request: ConsoleRequest) -> Answer:
    """Suspend a seller."""
    seller = await request.api.get("sellers/{}", request.path)
    name = seller["name"]
    action = _about(
        seller,
        f"Suspend {name}",
        f"All tokens for {name} are refused, so that applications can create no orders and read nothing. The seller is"
        " signed out, and cannot sign in. This applies at once, on other nodes within 5 s.",
        "Terminals stay connected, and open orders continue: the result of a payment is recorded.",
        "The tokens are kept. They are accepted again when you resume the seller.",
        submit="Suspend the seller",
        danger=True,
        repeatable=True,
        impossible=f"{name} is suspended already." if "suspended_date" in seller else "",
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.post("sellers/{}/suspend", seller["user_id"])
        return Done(f"{name} is suspended. Tokens for this seller are refused.")

    return await act(request, action, work)


@screen
async def resume(request: ConsoleRequest) -> Answer:
    """Resume a suspended seller."""
    seller = await request.api.get("sellers/{}", request.path)
    name = seller["name"]
    action = _about(
        seller,
        f"Resume {name}",
        "The tokens that applications had are accepted again, and the seller can sign in.",
        submit="Resume the seller",
        repeatable=True,
        impossible="" if "suspended_date" in seller else f"{name} is not suspended.",
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.post("sellers/{}/resume", seller["user_id"])
        return Done(f"{name} is active again.")

    return await act(request, action, work)


@screen
async def delete(request: ConsoleRequest) -> Answer:
    """Delete a seller that nothing uses."""
    seller = await request.api.get("sellers/{}", request.path)
    name = seller["name"]
    action = _about(
        seller,
        f"Delete {name}",
        f"{name} is signed out at once, and is not listed any more. {NO_UNDO}",
        "Only a seller that was added by mistake can be deleted: one without terminals, stores, orders, authorizations"
        " that are not withdrawn, and notifications that are not delivered. Suspend any other.",
        submit="Delete the seller",
        danger=True,
        repeatable=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.delete("sellers/{}", seller["user_id"])
        return Done(f"{name} is deleted.", path=HERE)

    return await act(request, action, work)


def _given(sent: Mapping[str, str]) -> dict[str, str]:
    """Return the password for the request; nothing if one is to be generated."""
    return {"password": sent["password"]} if sent["password"] else {}


def _authorizations(made: Document) -> str:
    """Return what happened to the authorizations of a seller whose password was replaced."""
    if "withdrawn" in made:
        return f"{_counted(made['withdrawn'], 'No', 'was', 'were')} withdrawn."
    if not made["authorizations"]:
        return "No application is authorized."
    return f"{_counted(made['authorizations'], 'No', 'remains', 'remain')}: applications keep their tokens."


def _counted(count: int, none: str, one: str, several: str) -> str:
    """Return "2 authorizations were", with the verb for this number."""
    if count == 1:
        return f"One authorization {one}"
    return f"{count or none} authorizations {several}"


def _about(
    seller: Document,
    title: str,
    *says: str,
    submit: str,
    fields: Sequence[Field] = (),
    danger: bool = False,
    impossible: str = "",
    repeatable: bool = False,
    is_change: bool = False,
) -> ActionForm:
    return ActionForm(
        title,
        says,
        seller_path(seller["user_id"]),
        SECTION,
        submit,
        fields,
        danger,
        impossible=impossible,
        repeatable=repeatable,
        is_change=is_change,
    )


_form_of_one = partial(form, path_pattern=NUMBER_PATTERN)
_ONE = "/sellers/{user_id}"
OF_ALL = (*form("/sellers/add", "seller_add", "Add a seller", add),)
OF_ONE = (
    *_form_of_one(f"{_ONE}/change", "seller_change", "Change a seller", change),
    *_form_of_one(f"{_ONE}/password", "seller_password", "Replace the password of a seller", new_password),
    *_form_of_one(f"{_ONE}/suspend", "seller_suspend", "Suspend a seller", suspend),
    *_form_of_one(f"{_ONE}/resume", "seller_resume", "Resume a seller", resume),
    *_form_of_one(f"{_ONE}/delete", "seller_delete", "Delete a seller", delete),
)
