"""List and setup of terminals, their rows, and device tokens, through the handlers on both databases."""

from __future__ import annotations

import pytest

from device_scene import START_MS, Desk, answered, refused
from paydesk.core.errors import Refusal
from paydesk.engine.orders import status
from paydesk.engine.terminals import handlers, store, stores
from paydesk.engine.terminals.bearer import DeviceBearers
from tables import each

DAY_MS = 86_400_000


async def modes(desk: Desk) -> dict[str, str]:
    """Return the mode of every terminal."""
    return {row[0]: row[1] for row in await desk.rows("SELECT terminal_id, operating_mode FROM terminals")}


async def test_list_shows_terminals_of_the_tokens_live_mode(desk: Desk) -> None:
    """A test token does not list a live terminal."""
    await desk.terminal(live=True)
    body = answered(await desk.handle(handlers.list_terminals))
    assert body["paging"] == {"total": 1, "offset": 0, "limit": 50}
    assert body["data"]["terminals"] == [
        {
            "id": desk.terminal_id,
            "terminal_id": desk.terminal_id,
            "pos_id": desk.pos_id,
            "store_id": str(desk.store_id),
            "external_pos_id": "SUC0101POS",
            "operating_mode": "PDV",
            "status": "inactive",
            "presence": "offline",
        }
    ]


async def test_list_pages_and_filters(desk: Desk) -> None:
    """The limit is clamped, pages don't overlap, and an unknown store has no terminals."""
    for _ in range(3):
        await desk.terminal()
    pages = [
        answered(await desk.handle(handlers.list_terminals, query={"limit": "2", "offset": offset}))
        for offset in ("0", "2", "4")
    ]
    seen = [terminal["id"] for page in pages for terminal in page["data"]["terminals"]]
    assert len(seen) == len(set(seen)) == 4
    for large in ("51", "9" * 30):
        assert answered(await desk.handle(handlers.list_terminals, query={"limit": large}))["paging"]["limit"] == 50
    for query in ({"store_id": "1"}, {"pos_id": "1"}):
        assert answered(await desk.handle(handlers.list_terminals, query=query))["paging"]["total"] == 0
    by_store = {"store_id": str(desk.store_id), "pos_id": str(desk.pos_id)}
    assert answered(await desk.handle(handlers.list_terminals, query=by_store))["paging"]["total"] == 4


@each("name", ["limit", "offset", "store_id", "pos_id"])
@each("text", ["-1", "x", "", "1.5", "²"])
async def test_list_refuses_an_invalid_number(desk: Desk, name: str, text: str) -> None:
    """Anything but a non-negative integer is `property_value`."""
    assert refused(await desk.handle(handlers.list_terminals, query={name: text})) == "property_value"


async def test_setup_sets_all_or_none(desk: Desk) -> None:
    """One unknown terminal refuses the whole request and is named by its path."""
    other = await desk.terminal()
    refusal = await desk.setup((other, "STANDALONE"), ("NO__SUCH", "PDV"))
    assert refused(refusal) == "terminal_not_found"
    assert isinstance(refusal, Refusal)
    (detail,) = refusal.details
    assert detail.startswith("'$.terminals[1]' - is unknown; send an id from GET /terminals/v1/list")
    assert (await modes(desk))[other] == "UNDEFINED"
    answered(await desk.setup((other, "STANDALONE"), (desk.terminal_id, "SELF_SERVICE")))
    assert await modes(desk) == {other: "STANDALONE", desk.terminal_id: "SELF_SERVICE"}


async def test_setup_of_a_test_terminal_with_a_live_token_returns_404(desk: Desk) -> None:
    """Live and test terminals are separate."""
    assert refused(await desk.setup((desk.terminal_id, "STANDALONE"), live=True)) == "terminal_not_found"


async def test_setup_refuses_the_same_terminal_twice(desk: Desk) -> None:
    """The detail names the second item."""
    refusal = await desk.setup((desk.terminal_id, "PDV"), (desk.terminal_id, "STANDALONE"))
    assert refused(refusal) == "property_value"
    assert isinstance(refusal, Refusal)
    assert "$.terminals[1]" in refusal.details[0]


async def test_setup_allows_one_pdv_terminal_per_point_of_sale(desk: Desk) -> None:
    """A second one is refused, a swap in one request is allowed; live and test terminals count separately."""
    other, live = await desk.terminal(), await desk.terminal(live=True)
    assert refused(await desk.setup((other, "PDV"))) == "precondition_failed"
    answered(await desk.setup((other, "PDV"), (desk.terminal_id, "STANDALONE")))
    assert refused(await desk.setup((desk.terminal_id, "PDV"), (other, "PDV"))) == "precondition_failed"
    answered(await desk.setup((live, "PDV"), live=True))
    assert await modes(desk) == {desk.terminal_id: "STANDALONE", other: "PDV", live: "PDV"}


@pytest.mark.on_postgres
async def test_setup_of_a_terminal_with_a_live_order_returns_409(desk: Desk) -> None:
    """Setting the current mode is allowed, and any mode once the order has ended."""
    order = await desk.order()
    assert refused(await desk.setup((desk.terminal_id, "STANDALONE"))) == "terminal_busy"
    answered(await desk.setup((desk.terminal_id, "PDV")))
    await desk.move(status.CANCEL, order)
    answered(await desk.setup((desk.terminal_id, "STANDALONE")))


async def test_an_overdue_order_does_not_block_setup(desk: Desk) -> None:
    """The expiry worker ends the order; setup does not wait for it."""
    order = await desk.order(seconds=30)
    desk.clock.advance(30_000)
    answered(await desk.setup((desk.terminal_id, "STANDALONE")))
    assert (await desk.now(order)).state == status.CREATED


@pytest.mark.on_postgres
async def test_an_overdue_order_with_permitted_authorization_blocks_setup(desk: Desk) -> None:
    """It can't expire: the terminal may be charging the card."""
    order = await desk.order(seconds=30)
    await desk.hello()
    await desk.acknowledge(order)
    await desk.progress(order, "authorizing")
    desk.clock.advance(30_000)
    assert refused(await desk.setup((desk.terminal_id, "STANDALONE"))) == "terminal_busy"


async def test_a_terminal_id_is_unique_over_all_sellers(desk: Desk) -> None:
    """A taken terminal id or external POS id returns None, and so does an unknown store."""
    again = await desk.database.write(
        lambda tx: store.create(
            tx,
            seller_id=desk.seller_id,
            pos_id=desk.pos_id,
            terminal_id=desk.terminal_id,
            live=True,
            now_ms=START_MS,
        )
    )
    taken = await desk.database.write(
        lambda tx: stores.create_pos(tx, desk.seller_id, desk.store_id, "SUC0101POS", "Till 2", START_MS)
    )
    nowhere = await desk.database.write(lambda tx: stores.create_pos(tx, desk.seller_id, 1, "X", "Till 3", START_MS))
    assert (again, taken, nowhere) == (None, None, None)


async def test_a_device_token_authenticates_its_terminal(desk: Desk) -> None:
    """Only its digest is in the database."""
    bearers = DeviceBearers(desk.database, 5)
    token = await mint(desk)
    caller = await bearers.caller(token, START_MS)
    assert (caller.seller_id, caller.terminal_id, caller.live, caller.revoked_ms) == (
        desk.seller_id,
        desk.terminal_id,
        False,
        None,
    )
    assert token not in str([list(row) for row in await desk.rows("SELECT * FROM device_tokens")])


async def test_a_replaced_device_token_is_accepted_for_results_for_7_days(desk: Desk) -> None:
    """It is `revoked` at once and refused after 7 days."""
    bearers = DeviceBearers(desk.database, 5)
    token = await mint(desk)
    await bearers.caller(token, START_MS)
    assert (await bearers.caller(await mint(desk), START_MS)).revoked_ms is None
    assert (await bearers.caller(token, START_MS + 7 * DAY_MS - 1)).revoked_ms == START_MS
    with pytest.raises(Refusal, match="revoked more than 7 days ago"):
        await bearers.caller(token, START_MS + 7 * DAY_MS)


@each("token", [None, "", "PDT-", "PDT-00-1", "TG-00-1", "PDT-" + "0" * 40 + "-1"])
async def test_an_unknown_device_token_returns_401(desk: Desk, token: str | None) -> None:
    """A missing, malformed or unknown token is `unauthorized`."""
    with pytest.raises(Refusal) as refusal:
        await DeviceBearers(desk.database, 5).caller(token, START_MS)
    assert refusal.value.kind.code == "unauthorized"


async def mint(desk: Desk) -> str:
    """Mint a device token for the terminal."""
    secret = await desk.database.write(lambda tx: store.mint_token(tx, desk.seller_id, desk.terminal_id, START_MS))
    return secret.reveal()
