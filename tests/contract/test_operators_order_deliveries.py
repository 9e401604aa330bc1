"""The deliveries of an order as operators see them: the subscription's URL, and the last attempt with its outcome."""

from __future__ import annotations

import pytest

from operator_calls import operator
from paydesk.platform.storage.database import Database
from service import running
from webhooks_scene import subscribe

ADD_ATTEMPT = """
INSERT INTO attempts (seller_id, delivery_id, attempt, started_ms, duration_ms, answer_status, answer_body, error)
SELECT seller_id, delivery_id, CAST($2 AS bigint), CAST($3 AS bigint), 17, CAST($4 AS bigint), 'secret text',
       CAST($5 AS text)
  FROM deliveries WHERE subscription_id = $1"""

REFUSED = {"number": 2, "date": "1970-01-01T00:00:02.000Z", "duration_ms": 17}


@pytest.mark.on_postgres
@pytest.mark.parametrize(("status", "error"), [(503, None), (None, "connection refused"), (200, None)])
async def test_delivery_has_its_last_attempt(database: Database, status: int | None, error: str | None) -> None:
    """The last by number: the time when it began, and the status or the error; never what the receiver answered."""
    async with running(database, workers=False) as service:
        person, application_id = await operator(service, "support"), service.scene.application.application_id
        one, _ = await subscribe(database, "https://8.8.8.8/hook?token=s3cret&till=1", application_id=application_id)
        other, _ = await subscribe(database, "https://8.8.8.8/other", application_id=application_id)
        order = (await service.create(await service.terminal())).body["id"]
        for arguments in ((one, 2, 2_000, status, error), (one, 1, 1_000, 500, None)):
            await database.write(lambda tx, given=arguments: tx.run(ADD_ATTEMPT, *given))  # type: ignore[misc]
        document = await person.did("GET", f"orders/{order}")
    shown = {delivery["subscription_id"]: delivery for delivery in document["deliveries"]}
    assert shown[one]["url"] == "https://8.8.8.8/hook?token=***&till=1"
    outcome = {"status": status} if status is not None else {"error": error}
    assert shown[one]["last_attempt"] == {**REFUSED, **outcome}
    assert shown[other]["url"] == "https://8.8.8.8/other"
    assert "last_attempt" not in shown[other], "no attempt has ended"
    assert "secret text" not in str(document)


async def test_deleted_subscription_keeps_its_deliveries_in_the_order(database: Database) -> None:
    """With its URL."""
    async with running(database, workers=False) as service:
        person, application_id = await operator(service, "support"), service.scene.application.application_id
        one, _ = await subscribe(database, "https://8.8.8.8/hook", application_id=application_id)
        order = (await service.create(await service.terminal())).body["id"]
        await service.scene.run("UPDATE subscriptions SET deleted_ms = 1 WHERE subscription_id = $1", one)
        (delivery,) = (await person.did("GET", f"orders/{order}"))["deliveries"]
    assert (delivery["subscription_id"], delivery["url"]) == (one, "https://8.8.8.8/hook")
