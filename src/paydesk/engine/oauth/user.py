"""`GET /users/me`: the seller of the access token.

The clients of the interface call it to test a connection, and to find the country of the page for authorizations.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from paydesk.core.errors import UNAUTHORIZED
from paydesk.core.response import Response, one_of
from paydesk.engine.sellers import store as sellers
from paydesk.platform.operation import Answer, Call
from paydesk.platform.rows import Rows

TEST_USER = "test_user"

_COUNTRIES = {
    "BRA": ("BR", "MLB"),
    "ARG": ("AR", "MLA"),
    "MEX": ("MX", "MLM"),
    "CHL": ("CL", "MLC"),
    "COL": ("CO", "MCO"),
    "URY": ("UY", "MLU"),
    "PER": ("PE", "MPE"),
}
"""The alpha-2 code of each country and the id of its site in the interface, by its ISO 3166 alpha-3 code."""


class UserDocument(Response, frozen=True, kw_only=True):
    """The seller of an access token. A country without a site has neither `country_id` nor `site_id`."""

    id: int
    nickname: str
    country_id: Annotated[str, one_of(country for country, _ in _COUNTRIES.values())] | None = None
    site_id: Annotated[str, one_of(site for _, site in _COUNTRIES.values())] | None = None
    tags: Annotated[list[str], Meta(description=f"`{TEST_USER}` for a test token.")]


def user_document(seller_id: int, name: str, country: str, *, live: bool) -> UserDocument:
    """Return the seller as the response has it, for a token that is `live` or for tests."""
    country_id, site_id = _COUNTRIES.get(country, (None, None))
    tags = [] if live else [TEST_USER]
    return UserDocument(id=seller_id, nickname=name, country_id=country_id, site_id=site_id, tags=tags)


async def get(call: Call) -> Answer:
    """Retrieve the seller of the access token."""
    seller = await sellers.get(call.tx, call.caller.seller_id)
    if seller is None:
        # Deleted since this node authenticated the token.
        raise UNAUTHORIZED.with_reason("unknown seller")
    return Answer(200, user_document(seller.seller_id, seller.name, seller.country, live=call.caller.live))


OPERATION = Rows("application").get(
    "/users/me",
    "get_user",
    get,
    description="Its id, name and country. The e-mail address is not included.",
    transaction="read",
    answer=UserDocument,
    example=msgspec.to_builtins(user_document(1_160_535_239, "Corner shop", "BRA", live=True)),
)
