"""Requests without access to an order: of another seller, and with the seller's tokens of the other mode."""

from __future__ import annotations

from functools import partial
from typing import Any

from model.requests import uuid_of
from model.shop import AT_TERMINAL, Shop
from service import approved, order_body

Attempt = tuple[str, str, Any, dict[str, str], tuple[int, str]]


async def try_all(shop: Shop, terminal: int) -> None:
    """Assert that the terminal and its latest order do not exist for outsiders."""
    for method, path, body, headers, expected in [*_at_the_terminal(shop, terminal), *_at_the_order(shop, terminal)]:
        answer = await shop.repeated(partial(shop.ask, method, path, body, headers))
        assert (answer.status, answer.body.get("error")) == expected, (path, answer)
    await _is_listed(shop, terminal)


def _at_the_terminal(shop: Shop, terminal: int) -> list[Attempt]:
    seed = shop.seeds[terminal]
    body = order_body(seed.terminal_id, external_reference="outsider")
    refused = (403, "forbidden_checking_terminal_owner")
    tokens = [seed.other_token, *(one.access_token for one in shop.seeds if one.seller != seed.seller)]
    return [("POST", "/v1/orders", body, _keyed(shop, token), refused) for token in tokens]


def _at_the_order(shop: Shop, terminal: int) -> list[Attempt]:
    seed, orders = shop.seeds[terminal], shop.orders[terminal]
    if not orders:
        return []
    order_id, unknown = orders[-1], (404, "order_not_found")
    others = [one for one in shop.seeds if one.seller != seed.seller]
    attempts: list[Attempt] = []
    for token in (seed.other_token, *(one.access_token for one in others)):
        headers = _keyed(shop, token)
        attempts += [
            ("GET", f"/v1/orders/{order_id}", None, headers, unknown),
            ("POST", f"/v1/orders/{order_id}/cancel", None, headers | AT_TERMINAL, unknown),
            ("POST", f"/v1/orders/{order_id}/refund", None, headers, unknown),
        ]
    for other in others:
        path = f"/device/v1/leases/{order_id[3:]}/results/{uuid_of(8, shop.number)}"
        body = {"boot_id": uuid_of(shop.seeds.index(other), 1), **approved()}
        attempts.append(
            ("PUT", path, body, {"Authorization": f"Bearer {other.device_token}"}, (404, "lease_not_found"))
        )
    return attempts


def _keyed(shop: Shop, token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "X-Idempotency-Key": f"outsider-{shop.number}"}


async def _is_listed(shop: Shop, terminal: int) -> None:
    """Assert that a token lists exactly its seller's terminals of its mode."""
    seed = shop.seeds[terminal]
    headers = {"Authorization": f"Bearer {seed.access_token}"}
    answer = await shop.repeated(partial(shop.ask, "GET", "/terminals/v1/list", None, headers))
    records = shop.records
    own = {
        one for one, seller in records.sellers.items() if seller == seed.seller and (one in records.live) == seed.live
    }
    assert {one["id"] for one in answer.body["data"]["terminals"]} == own, answer
