"""GET /v1/orders/{order_id}: who sees an order, and by which id."""

from __future__ import annotations

from accounts import other_application, other_seller
from service import Service

UNKNOWN = "ORD01J67CQQH5904WDBVZEM4JMEP3"


async def test_get_answers_what_create_answered(service: Service) -> None:
    """The same object, byte for byte, as long as nothing happened."""
    created = await service.create(await service.terminal())
    got = await service.request("GET", f"/v1/orders/{created.body['id']}")
    assert (got.status, got.raw) == (200, created.raw)


async def test_the_case_of_an_id_does_not_matter(service: Service) -> None:
    """Notifications carry ids in lower case; the answer has the true one."""
    order_id = (await service.create(await service.terminal())).body["id"]
    for written in (order_id.lower(), order_id.swapcase(), order_id[:8].lower() + order_id[8:]):
        assert (await service.get(written))["id"] == order_id


async def test_every_application_of_the_seller_sees_it(service: Service) -> None:
    """Orders are the seller's; each still says which application made it."""
    order_id = (await service.create(await service.terminal())).body["id"]
    order = await (await other_application(service)).get(order_id)
    assert order["integration_data"]["application_id"] == str(service.scene.application.application_id)


async def test_what_is_not_the_callers_does_not_exist(service: Service) -> None:
    """Another seller's order and one of the other kind answer, byte for byte, like one that never was."""
    order_id = (await service.create(await service.terminal())).body["id"]
    stranger = await other_seller(service)
    replies = [
        await service.request("GET", f"/v1/orders/{UNKNOWN}"),
        await stranger.request("GET", f"/v1/orders/{order_id}"),
        await service.request("GET", f"/v1/orders/{order_id}", token=service.live_access_token),
    ]
    assert {(reply.status, reply.code) for reply in replies} == {(404, "order_not_found")}
    assert len({reply.raw for reply in replies}) == 1


async def test_an_id_of_another_form(service: Service) -> None:
    """It is told from an id that is merely unknown."""
    letters = ("%C5%BF", "%C3%9F")  # their upper cases are S and SS
    malformed = [
        UNKNOWN[:-1] + "U",
        UNKNOWN + "%0A",
        *(UNKNOWN[:-1] + letter for letter in letters),
        UNKNOWN[:-2] + letters[1],
    ]
    for order_id in ("1", UNKNOWN[:-1], UNKNOWN + "0", "PAY" + UNKNOWN[3:], *malformed):
        reply = await service.request("GET", f"/v1/orders/{order_id}")
        assert (reply.status, reply.code) == (400, "invalid_path_param"), order_id


async def test_headers_of_other_operations_are_ignored(service: Service) -> None:
    """A content type without a body and an idempotency key change nothing."""
    order_id = (await service.create(await service.terminal())).body["id"]
    headers = {"Content-Type": "text/plain", "X-Idempotency-Key": "x" * 100, "X-Unknown": "y"}
    assert (await service.request("GET", f"/v1/orders/{order_id}?unknown=1", headers=headers)).status == 200
