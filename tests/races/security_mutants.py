"""The defects that belong to security events and to scopes that an operator takes away."""

from __future__ import annotations

from mutant import Mutant

EVENTS = "tests/contract/test_security_events.py"
NODES = "tests/races/test_security_events_races.py"
NARROWED = "tests/contract/test_oauth_narrowed.py"
REFUSED = "tests/workers/test_webhooks_refused.py"

ONE_EVENT = "Operators learn of an attack, once"
NARROWS = "A token has no scope that its application lost"

SECURITY_MUTANTS = (
    Mutant(
        ONE_EVENT,
        "a replay revokes and is not recorded",
        "paydesk/engine/oauth/grants.py",
        "            await operator_events.record(self.tx, self.alert, self.now_ms)\n",
        "",
        EVENTS,
        "replayed and sqlite",
    ),
    Mutant(
        ONE_EVENT,
        "a replay that revokes nothing is recorded too",
        "paydesk/engine/oauth/grants.py",
        "        if await store.revoke_family(self.tx, replayed.seller_id",
        "        if None is not await store.revoke_family(self.tx, replayed.seller_id",
        NODES,
        "refresh_token",
    ),
    Mutant(
        ONE_EVENT,
        "each node makes an event of its own",
        "paydesk/platform/operator_events.py",
        '        return f"{self.kind}:{self.subject}:{now_ms // HOUR_MS}"\n',
        '        return f"{self.kind}:{self.subject}:{now_ms // HOUR_MS}:{ids.ulid(now_ms)}"\n',
        NODES,
        "sign_ins and postgres",
    ),
    Mutant(
        ONE_EVENT,
        "an event of a refusal that is raised is rolled back with it",
        "paydesk/platform/http/endpoint.py",
        "            await self._reporter.report(request.call.alert, request.call.now_ms, identity)\n",
        "            pass\n",
        EVENTS,
        "two_devices and sqlite",
    ),
    Mutant(
        ONE_EVENT,
        "a poll that a restart ends counts as a second device",
        "paydesk/engine/device/polling/handlers.py",
        "is_late=not has_waited",
        "is_late=True",
        EVENTS,
        "started_again and sqlite",
    ),
    Mutant(
        ONE_EVENT,
        "an address that is refused at delivery is an attempt like any other",
        "paydesk/engine/webhooks/delivery/recording.py",
        "if refused is not None and await",
        "if False and await",
        REFUSED,
        "sqlite",
    ),
    Mutant(
        NARROWS,
        "an access token keeps what its application lost",
        "paydesk/engine/oauth/bearer.py",
        "        return shared(self.scope, self.application_scopes)\n",
        "        return self.scope\n",
        NARROWED,
        "loses_a_scope and sqlite",
    ),
    Mutant(
        NARROWS,
        "a refresh answers scopes that the application lost",
        "paydesk/engine/oauth/handlers.py",
        "        scope = shared(pair.generation.scope, application.scopes)\n",
        "        scope = pair.generation.scope\n",
        NARROWED,
        "what_is_left and sqlite",
    ),
    Mutant(
        NARROWS,
        "a change of an application is not carried to other nodes",
        "paydesk/engine/oauth/bearer.py",
        'clear_on("applications", "sellers")',
        'clear_on("sellers")',
        "tests/races/test_nodes_accounts.py",
        "scope_change_takes_effect and notification",
    ),
)
