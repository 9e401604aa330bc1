"""Authorization codes that operators issue without a browser have a mode, as those of the consent have."""

from __future__ import annotations

from functools import partial

from operator_calls import audited, operator
from paydesk.platform.storage.database import Database
from service import running


async def test_operators_bind_codes_to_a_mode(database: Database) -> None:
    """The answer and the audit trail have the mode if one was given, and only then."""
    async with running(database, development=True, workers=False) as service:
        owner = await operator(service)
        body = {"client_id": service.scene.application.application_id, "user_id": service.seller_id}
        for mode in (True, False, None):
            made = await owner.did("POST", "codes", body if mode is None else {**body, "test_token": mode})
            code = made.pop("code")
            assert made.get("test_token") is mode
            assert ("test_token" in made) is (mode is not None)
            line = (await audited(service))[-1]
            assert (line.action, line.after) == ("codes.create", made)
            exchange = partial(service.request, "POST", "/oauth/token", token=None, key=None)
            if mode is not None:
                refused = await exchange(service.scene.exchange(code, test_token=not mode))
                assert (refused.status, refused.code) == (400, "invalid_grant")
            reply = await exchange(service.scene.exchange(code))
            assert (reply.status, reply.body["live_mode"]) == (200, mode is not True)


async def test_mode_of_an_operators_code_is_a_boolean(database: Database) -> None:
    """Anything else is refused with its path."""
    async with running(database, development=True, workers=False) as service:
        body = {"client_id": service.scene.application.application_id, "user_id": service.seller_id}
        for wrong in ("true", 1, None, ["true"], {"a": True}):
            refused = await (await operator(service)).ask("POST", "codes", {**body, "test_token": wrong})
            assert (refused.status, refused.code) == (400, "property_type"), wrong
            assert refused.details[0].startswith("'$.test_token'"), wrong
