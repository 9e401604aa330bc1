"""`POST /dev/scenes`: what one test needs, of its own, in one transaction: a seller, an application, its tokens."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from pydantic import Field

from paydesk.core.errors import PROPERTY_VALUE, Refusal
from paydesk.core.model import Model
from paydesk.core.money import CURRENCIES
from paydesk.core.response import Response
from paydesk.core.secrets import new_hex
from paydesk.engine.oauth import authorizations
from paydesk.engine.oauth.clients import applications
from paydesk.engine.oauth.tokens import Lifetimes
from paydesk.engine.sellers import store as sellers
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.operators import audit
from paydesk.operators.schemas import Name
from paydesk.operators.sellers.fields import Country, Currency
from paydesk.operators.subscriptions.fields import Url
from paydesk.platform.operation import Answer, Call
from paydesk.platform.rows import Rows
from paydesk.platform.storage.database import Transaction
from paydesk_dev.inbox.receiver import PATH as INBOX

SCOPES = "offline_access read write"
CALLBACK = "/demo/callback"
NO_PASSWORD = "!"  # noqa: S105 - no password has this hash
ACCESS_SECONDS_MAX = 15_552_000
_CURRENCY_OF = {one.country: one.code for one in CURRENCIES.values()}


class SceneRequest(Model):
    """`POST /dev/scenes`. Without fields: a seller in Brazil whose notifications go to the demo inbox."""

    name: Name = Field("Scene", description="Of the seller and the application.")
    country: Country = "BRA"
    currency: Currency | None = Field(None, description="By default the country's.")
    webhook_url: Url | None = Field(None, description="By default the demo inbox.")
    access_seconds: Annotated[int, Field(ge=1, le=ACCESS_SECONDS_MAX)] | None = Field(
        None, description="How long the access tokens are valid. By default as long as all."
    )


class SceneSeller(Response, frozen=True):
    """The seller, who cannot sign in: there is no password."""

    user_id: int
    email: str
    name: str
    country: str
    currency: str


class SceneTokens(Response, frozen=True):
    """Tokens of the application for the seller."""

    access_token: str
    refresh_token: str


class SceneWebhook(Response, frozen=True):
    """The subscription to notifications of test orders."""

    subscription_id: str
    url: str
    secret: str
    inbox_url: Annotated[str, Meta(description="The demo inbox.")]


class Scene(Response, frozen=True):
    """A seller and an application, with the fields of the credentials file."""

    base_url: str
    client_id: str
    client_secret: str
    redirect_uri: str
    seller: SceneSeller
    test: SceneTokens
    live: SceneTokens
    webhook: SceneWebhook


async def create(call: Call) -> Answer:
    """Create a seller, an application with tokens for it, and a subscription, in one transaction."""
    body: SceneRequest = call.body
    currency = body.currency or _CURRENCY_OF.get(body.country)
    if currency is None:
        raise PROPERTY_VALUE.with_reason("no currency", f"'$.currency' - is required with the country {body.country}")
    if body.webhook_url is not None:
        await _refuse_invalid_url(call, body.webhook_url)
    return Answer(201, await call.database.write(lambda tx: _create(tx, call, body, currency)))


async def _refuse_invalid_url(call: Call, url: str) -> None:
    try:
        await subscriptions.refuse_invalid_url(
            url,
            ports=call.settings.webhook_ports,
            loopback_allowed=call.shared.development,
            private_networks=call.settings.webhook_private_networks,
        )
    except Refusal as refusal:
        details = (detail.replace("'$.url'", "'$.webhook_url'") for detail in refusal.details)
        raise PROPERTY_VALUE.with_reason("invalid URL", *details) from None


async def _create(tx: Transaction, call: Call, body: SceneRequest, currency: str) -> Scene:
    now_ms, base_url = call.now_ms, call.settings.public_url or f"http://{call.headers.get('host', '')}"
    callback, inbox = base_url + CALLBACK, base_url + INBOX
    seller = await sellers.create(
        tx,
        email=f"scene-{new_hex(64)}@scene.example",
        name=body.name,
        country=body.country,
        currency=currency,
        password_hash=NO_PASSWORD,
        now_ms=now_ms,
    )
    assert seller is not None, "the e-mail address is random"
    application, secret = await applications.create(
        tx, name=body.name, redirect_uris=(callback,), scopes=SCOPES, now_ms=now_ms
    )
    access_seconds = body.access_seconds or call.settings.access_token_lifetime_seconds
    lifetimes = Lifetimes(access_seconds, call.settings.refresh_token_lifetime_seconds)

    async def tokens(*, live: bool) -> SceneTokens:
        pair = await authorizations.mint_family(
            tx,
            call.keys,
            application_id=application.application_id,
            seller_id=seller.seller_id,
            scope=SCOPES,
            live=live,
            now_ms=now_ms,
            lifetimes=lifetimes,
        )
        return SceneTokens(pair.access_token, pair.refresh_token or "")

    test, live = await tokens(live=False), await tokens(live=True)
    subscription, webhook_secret = await subscriptions.create(
        tx,
        call.keys,
        application_id=application.application_id,
        live=False,
        url=body.webhook_url or inbox,
        actions=(),
        now_ms=now_ms,
    )
    about = SceneSeller.of(seller, user_id=seller.seller_id)
    await audit.record(call, tx, "scenes.create", str(seller.seller_id), after=about)
    return Scene(
        base_url,
        str(application.application_id),
        secret.reveal(),
        callback,
        about,
        test,
        live,
        SceneWebhook(subscription.subscription_id, subscription.url, webhook_secret.reveal(), inbox),
    )


OPERATIONS = (
    Rows("operator", "/dev", development=True).post(
        "/scenes",
        "create_scene",
        create,
        status=201,
        answer=Scene,
        body=SceneRequest,
        transaction="none",
        errors=(PROPERTY_VALUE,),
        description=(
            "For tests: each has a seller, tokens and notifications of its own, so tests beside each other do not meet."
            " No password is hashed, so it takes milliseconds. Nothing removes a scene but `paydesk dev --fresh`;"
            " `POST /dev/reset` ends its tokens."
        ),
    ),
)
