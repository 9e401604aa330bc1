"""Deliberate defects, one a promise: each is made in a copy of the sources, and a test must notice it there.

`python tests/races/mutants.py` runs all of them and prints a table; a word runs those that it occurs in, and `--write`
keeps the table in MUTANTS.md. `make test-all` runs all of them too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acquirer_mutants import ACQUIRER_MUTANTS
from authorize_mutants import AUTHORIZE_MUTANTS
from confirmation_mutants import CONFIRMATION_MUTANTS
from event_mutants import EVENT_MUTANTS
from model_mutants import MODEL_MUTANTS
from mutant import Mutant
from outcome_mutants import OUTCOME_MUTANTS
from pairing_mutants import PAIRING_MUTANTS
from port_mutants import PORT_MUTANTS
from print_mutants import PRINT_MUTANTS
from refund_mutants import REFUND_MUTANTS
from removal_mutants import REMOVAL_MUTANTS
from security_mutants import SECURITY_MUTANTS
from session_mutants import SESSION_MUTANTS
from sign_in_mutants import SIGN_IN_MUTANTS
from token_mutants import TOKEN_MUTANTS

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("MUTANTS.md")
COPIED = ("src", "tests", "docs", "bench", "pyproject.toml")
SECONDS_MAX = 300

ORDERS = "tests/races/test_promises_orders.py"
REFERENCES = "tests/races/test_reference_races.py"
OUTCOMES = "tests/races/test_promises_outcomes.py"
TOKENS = "tests/races/test_promises_tokens.py"
PRESENTED = "tests/contract/test_oauth_revoke_introspect.py"
AWAY = "tests/races/test_away_and_back.py"
KILLED = "tests/races/test_killed.py"
PAUSING = "tests/workers/test_webhooks_pausing.py"
SUPERSEDED = "tests/workers/test_webhooks_superseded.py"
WEBHOOKS = "tests/races/test_webhooks_races.py"
OPERATORS = "tests/races/test_operators_races.py"
PARTIES = "tests/races/test_nodes_accounts.py"
SELLERS = "tests/contract/test_operators_sellers.py"
WITHDRAWAL = "tests/races/test_withdrawal_races.py"
PAGES_RACES = "tests/races/test_pages_races.py"
PAGES_CONSENT = "tests/contract/test_pages_consent.py"
PAGES_SIGN_IN = "tests/contract/test_pages_sign_in.py"
SECRETS = "tests/contract/test_secrets.py"
CLIENTS = "tests/contract/test_clients.py"
POWER = "tests/faults/test_power_cuts.py"
FSYNC = "tests/faults/test_fsync.py"
CLOCK = "tests/faults/test_clock_jumps.py"
DIFFERENT_CLOCKS = "tests/faults/test_clocks_differ.py"
CRASH = "tests/faults/test_crash_points.py"
CHAOS = "tests/faults/test_chaos.py"
RELEASE = "tests/races/test_terminals_release.py"
RETENTION = "tests/workers/test_retention_rules.py"
WAKES = "tests/races/test_nodes_notify.py"
WORKERS = "tests/races/test_nodes_workers.py"
BOUNDED = "tests/unit/test_storage_bounded.py"
HEALTH = "tests/contract/test_health.py"


MUTANTS = (
    Mutant(
        "An acknowledged change is never lost",
        "SQLite: a write is answered a tenth of a second before its commit",
        "paydesk/platform/storage/sqlite/database.py",
        "        self._commits.put(units)\n",
        "        self._answer(units)\n        self._loop.call_later(0.1, self._commits.put, units)\n",
        POWER,
        "nothing_acknowledged",
    ),
    Mutant(
        "An acknowledged change is never lost",
        "SQLite: a commit is not on the disk when it is answered",
        "paydesk/platform/storage/sqlite/file.py",
        '"synchronous = FULL"',
        '"synchronous = NORMAL"',
        POWER,
        "nothing_acknowledged",
    ),
    Mutant(
        "An acknowledged change is never lost",
        "SQLite: a process whose sync failed goes on",
        "paydesk/platform/storage/sqlite/database.py",
        "error=str(error))\n            self._end_process(1)\n",
        "error=str(error))\n",
        FSYNC,
        "loses_nothing",
    ),
    Mutant(
        "An acknowledged change is never lost",
        "SQLite: what a failed sync left in memory is built upon",
        "paydesk/platform/storage/sqlite/database.py",
        "                renew_log(file)\n",
        "                pass\n",
        FSYNC,
        "loses_nothing",
    ),
    Mutant(
        "What was refused as expired stays so",
        "a token refused as expired is remembered as good",
        "paydesk/engine/oauth/bearer.py",
        "    await tx.run(EXPIRE, token.seller_id, token.digest, now_ms)\n    tx.notify(token.family_topic)\n",
        "    await tx.run(EXPIRE, token.seller_id, token.digest, now_ms)\n",
        CLOCK,
        "stays_expired and sqlite",
    ),
    Mutant(
        "One key, one effect, one answer",
        "a key is forgotten with its effect, so a repeat after a crash finds nothing",
        "paydesk/platform/http/endpoint.py",
        "            idempotency.claim_with_response(tx, key, digest, reply.status, reply.body, call.now_ms)\n",
        "            pass\n",
        CRASH,
        "one_effect and sqlite and after_commit",
    ),
    Mutant(
        "An acknowledged change is never lost",
        "PostgreSQL: a write is answered a tenth of a second before its commit",
        "paydesk/platform/storage/postgres/database.py",
        "                (counts,) = await _committed(connection, connection.fetch(*form))\n",
        "                for unit in units:\n"
        "                    unit.settle()\n"
        "                await asyncio.sleep(0.1)\n"
        "                (counts,) = await _committed(connection, connection.fetch(*form))\n",
        CHAOS,
        "are_killed",
    ),
    Mutant(
        "An acknowledged change is never lost",
        "PostgreSQL: a commit does not wait for the disk",
        "paydesk/platform/storage/postgres/connections.py",
        "            _check(*session)\n",
        '            _check(*session)\n            await connection.execute("SET synchronous_commit = off")\n',
        AWAY,
        "answered_when_postgresql_is_killed",
    ),
    Mutant(
        "A write is found by the next read",
        "a node keeps orders as it showed them first",
        "paydesk/engine/orders/handlers.py",
        "    return Answer(200, order_document(await requested_order(call), call.shared.objects[Labels]))\n",
        "    order = order_document(await requested_order(call), call.shared.objects[Labels])\n"
        "    return Answer(200, get.__dict__.setdefault(call.path, order))\n",
        CHAOS,
        "are_killed",
    ),
    Mutant(
        "One key, one effect, one answer",
        "the key is looked up before it is claimed",
        "paydesk/platform/idempotency.py",
        "    if await tx.run(CLAIM, *key, digest, now_ms):\n"
        "        return None\n"
        "    row = await tx.one(REPLAY, *key)\n",
        "    row = await tx.one(REPLAY, *key)\n"
        "    if row is None:\n"
        "        await tx.run(CLAIM, *key, digest, now_ms)\n"
        "        return None\n",
        "tests/races/test_promises_refunds.py",
        "under_one_key and postgres",
    ),
    Mutant(
        "One key, one effect, one answer",
        "a request that does its work first ignores that its key is taken",
        "paydesk/platform/idempotency.py",
        "now_ms, required=True)\n",
        "now_ms)\n",
        "tests/contract/test_http_idempotency.py",
        "original_response",
    ),
    Mutant(
        "One key, one effect, one answer",
        "a refusal keeps its key",
        "paydesk/platform/idempotency.py",
        "    await tx.run(RELEASE, *key)\n",
        "    del tx, key\n",
        "tests/contract/test_http_idempotency.py",
    ),
    Mutant(
        "One key, one effect, one answer",
        "the answer is not stored with its effect",
        "paydesk/platform/http/endpoint.py",
        "            idempotency.claim_with_response(tx, key, digest, reply.status, reply.body, call.now_ms)\n",
        "            await tx.run(idempotency.CLAIM, *key, digest, call.now_ms)\n",
        ORDERS,
        "thousands and sqlite",
    ),
    Mutant(
        "One key, one effect, one answer",
        "keys are pruned two days too early",
        "paydesk/service/retention.py",
        "max(settings.idempotency_keep_days, operation.keys_kept_days_min)",
        "max(settings.idempotency_keep_days - 2, operation.keys_kept_days_min)",
        RETENTION,
        "key_is_free and sqlite",
    ),
    Mutant(
        "A history is a path without gaps",
        "a move raises the version by two",
        "paydesk/engine/orders/store.py",
        "SET version = version + 1,",
        "SET version = version + 2,",
        OUTCOMES,
        "cancel-against-ack and sqlite",
    ),
    Mutant(
        "A history is a path in the table of moves",
        "a move has no guard",
        "paydesk/engine/orders/store.py",
        "AND order_id = $2 AND {move.guard}{where",
        "AND order_id = $2{where",
        OUTCOMES,
        "cancel-against-ack",
    ),
    Mutant(
        "One live order per terminal",
        "the index is not unique",
        "paydesk/platform/storage/migrations/0001_initial_schema.sql",
        "CREATE UNIQUE INDEX orders_live_on_terminal",
        "CREATE INDEX orders_live_on_terminal",
        ORDERS,
        "a_terminal_takes_one",
    ),
    Mutant(
        "An acquirer's number is one order's",
        "the number is looked up instead of claimed",
        "paydesk/engine/payments/outcomes.py",
        "    if await tx.run(CLAIM, order.seller_id, order.live, reference_id, order.order_id):\n",
        "    row = await tx.one(HOLDER, order.seller_id, order.live, reference_id)\n"
        "    if row is None:\n"
        "        tx.defer(CLAIM, order.seller_id, order.live, reference_id, order.order_id)\n",
        REFERENCES,
        "two_at_once and postgres",
    ),
    Mutant(
        "No live order where none are taken",
        "creating an order does not lock its terminal",
        "paydesk/engine/orders/store.py",
        ' FOR UPDATE\nON CONFLICT DO NOTHING"""',
        '\nON CONFLICT DO NOTHING"""',
        ORDERS,
        "takes_none and postgres",
    ),
    Mutant(
        "Cancel and the terminal exclude each other",
        "what a terminal does is decided on a row that is not held",
        "paydesk/engine/orders/store.py",
        'LOCK = f"{FIND} FOR UPDATE"',
        "LOCK = FIND",
        OUTCOMES,
        "cancel-against-ack and postgres",
    ),
    Mutant(
        "Cancel and the authorization permit exclude each other",
        "a cancel is requested of the terminal after the permit",
        "paydesk/engine/orders/status.py",
        '    (CANCELLATION_REQUESTED,),\n    "order.at_terminal",\n    before_authorization=True,\n',
        '    (CANCELLATION_REQUESTED,),\n    "order.at_terminal",\n    before_authorization=False,\n',
        OUTCOMES,
        "cancel-against-authorizing",
    ),
    Mutant(
        "Cancel and the authorization permit exclude each other",
        "an operator releases a terminal after the permit",
        "paydesk/engine/orders/status.py",
        '*BEFORE_CHECK),\n    (CANCELED_BY_API,),\n    "order.canceled",\n    before_authorization=True,\n',
        '*BEFORE_CHECK),\n    (CANCELED_BY_API,),\n    "order.canceled",\n    before_authorization=False,\n',
        RELEASE,
        "authorize",
    ),
    Mutant(
        "Cancel and the authorization permit exclude each other",
        "authorization is permitted after a cancel request",
        "paydesk/engine/orders/store.py",
        "AND {in_states(status.AT_TERMINAL)}\n   AND permitted_ms IS NULL",
        "AND {in_states(*status.BEFORE_CHECK)}\n   AND permitted_ms IS NULL",
        OUTCOMES,
        "cancel-against-authorizing",
    ),
    Mutant(
        "The authorization permit and expiry exclude each other",
        "an order expires after authorization was permitted",
        "paydesk/engine/orders/status.py",
        '    (EXPIRED,),\n    "order.canceled",\n    before_authorization=True,\n',
        '    (EXPIRED,),\n    "order.canceled",\n    before_authorization=False,\n',
        OUTCOMES,
        "granted_since_it_was_read",
    ),
    Mutant(
        "An approved payment is never lost",
        "the approval of an ended order is recorded and not reversed",
        "paydesk/engine/device/rules/decisions.py",
        "unpaid        late_approval  late_approval",
        "unpaid        finished       finished     ",
        OUTCOMES,
        "approval-against-expiry and sqlite",
    ),
    Mutant(
        "Every event is delivered at least once",
        "a delivery counts as delivered before it is sent",
        "paydesk/engine/webhooks/delivery/store.py",
        '"claimed_until_ms = $5, attempts = attempts + 1"',
        "\"claimed_until_ms = $5, attempts = attempts + 1, status = 'delivered'\"",
        KILLED,
        "sqlite",
    ),
    Mutant(
        "Every event is delivered at least once",
        "an attempt that failed counts as delivered",
        "paydesk/engine/webhooks/delivery/recording.py",
        "            if outcome.delivered:\n                await self._courier.delivered",
        "            if True:\n                await self._courier.delivered",
        CHAOS,
        "sqlite",
    ),
    Mutant(
        "Every event is delivered at least once",
        "old deliveries are pruned, also those that are still to be delivered",
        "paydesk/engine/webhooks/retention.py",
        '    "delivery_id",\n    "ended_ms",',
        '    "delivery_id",\n    "created_ms",',
        RETENTION,
        "only_old_rows and sqlite",
    ),
    Mutant(
        "In order per order and subscription",
        "a delivery is claimed while an earlier one is open",
        "paydesk/engine/webhooks/delivery/store.py",
        """f"NOT EXISTS (SELECT 1 {_earlier('due')})\"""",
        '"1 = 1"',
        WEBHOOKS,
    ),
    Mutant(
        "In order per order and subscription",
        "a newer version supersedes one that failed less than five times",
        "paydesk/engine/webhooks/delivery/store.py",
        "first.attempts - first.uncounted >= {schedule.SUPERSEDED_AFTER_ATTEMPTS}",
        "first.attempts - first.uncounted >= {schedule.SUPERSEDED_AFTER_ATTEMPTS} - 1",
        SUPERSEDED,
        "sqlite",
    ),
    Mutant(
        "In order per order and subscription",
        "a fourth failure is superseded by a version that waits",
        "paydesk/engine/webhooks/delivery/outcome_store.py",
        "if failures >= schedule.SUPERSEDED_AFTER_ATTEMPTS and",
        "if failures >= schedule.SUPERSEDED_AFTER_ATTEMPTS - 1 and",
        SUPERSEDED,
        "sqlite",
    ),
    Mutant(
        "A paused subscription gets nothing, and all of it on resume",
        "a success makes parked deliveries due",
        "paydesk/engine/webhooks/delivery/outcome_store.py",
        "AND next_ms > $4 AND next_ms < {PARKED_MS}",
        "AND next_ms > $4",
        PAUSING,
        "sqlite",
    ),
    Mutant(
        "A paused subscription gets nothing, and all of it on resume",
        "deliveries that were parked stay so after a resume",
        "paydesk/engine/webhooks/delivery/store.py",
        "(last_ms >= {PARKED_MS} OR forward_ms IS NOT NULL)",
        "forward_ms IS NOT NULL",
        PAUSING,
        "sqlite",
    ),
    Mutant(
        "A subscription that failed for five days is paused once",
        "a success that is recorded at the same time is ignored",
        "paydesk/engine/webhooks/delivery/failing.py",
        "   AND failing_since_ms <= CAST($2 AS bigint) - {PAUSED_AFTER_MS}\nRETURNING failing_since_ms",
        "RETURNING COALESCE(failing_since_ms, 0)",
        PAUSING,
        "sqlite",
    ),
    Mutant(
        "Deliveries are committed with their event",
        "a move announces nothing",
        "paydesk/engine/webhooks/outbox.py",
        " WHERE topic = 'orders' AND application_id",
        " WHERE topic = 'order' AND application_id",
        CLIENTS,
        "validators_take",
    ),
    Mutant(
        "A code mints once",
        "the claim of a code does not look whether it was exchanged",
        "paydesk/engine/oauth/store.py",
        'WHERE seller_id = $1 AND digest = $2 AND {lifecycle.EXCHANGE.guard("codes")}',
        "WHERE seller_id = $1 AND digest = $2 AND expired_ms IS NULL",
        TOKENS,
        "mints and postgres",
    ),
    Mutant(
        "A refresh token has one successor",
        "who comes second is refused, not answered the same tokens",
        "paydesk/engine/oauth/grants.py",
        "            return await self._retry(token)\n",
        '            raise INVALID_GRANT.with_reason("used")\n',
        TOKENS,
        "successor",
    ),
    Mutant(
        "A replayed refresh token ends its family",
        "used tokens are pruned by the age that they have, not when they would have expired",
        "paydesk/engine/oauth/retention.py",
        "      AND (t.expires_ms >= $3\n",
        "      AND (t.created_ms >= $3\n",
        RETENTION,
        "reuse_after_pruning and sqlite",
    ),
    Mutant(
        "A replayed refresh token ends its family",
        "a family's newest generations are pruned like the others",
        "paydesk/engine/oauth/retention.py",
        "below = min(family.generation - 1, row[0]",
        "below = max(0, row[0]",
        RETENTION,
        "a_retry and sqlite",
    ),
    Mutant(
        "A revoked token stops working at once",
        "the cache of bearers does not hear of revocations",
        "paydesk/engine/oauth/bearer.py",
        '        self._cache.drop_on("family:", lambda topic, bearer: topic in bearer.topics)\n',
        "",
        "tests/contract/test_oauth_bearer.py",
    ),
    Mutant(
        "A revoked token stops working at once",
        "an access token that is revoked alone is remembered as good",
        "paydesk/engine/oauth/bearer.py",
        "    await tx.run(REVOKE, token.seller_id, token.digest, now_ms)\n    tx.notify(token.family_topic)\n",
        "    await tx.run(REVOKE, token.seller_id, token.digest, now_ms)\n",
        PRESENTED,
        "leaves_the_cache and sqlite",
    ),
    Mutant(
        "A family's life is the table of its moves",
        "a family whose newest token was refused as expired may be refreshed",
        "paydesk/engine/oauth/lifecycle.py",
        'REFRESH = Move("refresh", "the newest refresh token, before it expires", (ACTIVE,)',
        'REFRESH = Move("refresh", "the newest refresh token, before it expires", (ACTIVE, EXPIRED)',
        "tests/unit/test_oauth_lifecycle.py",
    ),
    Mutant(
        "A node that lacks a key rejects no client",
        "a key of the same version is taken for the same key",
        "paydesk/engine/oauth/tokens.py",
        "generation.digest is not None and generation.digest != digest(access_token)",
        "False",
        "tests/contract/test_oauth_keys.py",
        "another_key and sqlite",
    ),
    Mutant(
        "No application revokes another one's token",
        "any client with a refresh token may revoke it",
        "paydesk/engine/oauth/presented.py",
        "    if token is None or token.application_id != application.application_id:\n",
        "    if token is None:\n",
        PRESENTED,
        "of_another_client and sqlite",
    ),
    Mutant(
        "Asking about a token changes nothing",
        "a used refresh token is said to be active",
        "paydesk/engine/oauth/presented.py",
        "token.revoked_ms is not None or token.used",
        "token.revoked_ms is not None",
        PRESENTED,
        "used_refresh and sqlite",
    ),
    Mutant(
        "A revoked token stops working on the other nodes",
        "revocations are not published to other nodes",
        "paydesk/platform/storage/postgres/notify.py",
        '    "family:",\n',
        "",
        WAKES,
        "revoked_on_one_node",
    ),
    Mutant(
        "A revoked token stops working on the other nodes",
        "a reconnect ignores notifications that were lost before",
        "paydesk/platform/storage/postgres/notify.py",
        "            self._everything_changed()\n            while",
        "            while",
        WAKES,
        "nothing_is_missed",
    ),
    Mutant(
        "An order reaches its terminal",
        "a lone node that hears of a new one does not publish what it missed",
        "paydesk/platform/storage/postgres/notify.py",
        "            self.publish((EVERYTHING,))\n",
        "            pass\n",
        WAKES,
        "before_it_is_heard_of",
    ),
    Mutant(
        "An order reaches its terminal",
        "a lone node does not hear that another has come",
        "paydesk/platform/storage/postgres/notify.py",
        "        self._expect_others()\n        if EVERYTHING",
        "        if EVERYTHING",
        WAKES,
        "node_that_joins",
    ),
    Mutant(
        "An order reaches its terminal",
        "an order whose wake was lost waits for the next poll",
        "paydesk/engine/device/polling/missed_wakeups.py",
        "        context.database.signals.notify_local(",
        "        list(",
        WAKES,
        "without_hints",
    ),
    Mutant(
        "Workers of several nodes don't hold each other up",
        "a worker waits for what a rival holds",
        "paydesk/engine/orders/store.py",
        "{FIND} FOR UPDATE SKIP LOCKED",
        "{FIND} FOR UPDATE",
        WORKERS,
        "passed_over",
    ),
    Mutant(
        "What a seller withdraws is dead",
        "withdrawing does not notify the token caches",
        "paydesk/engine/oauth/authorizations.py",
        "    tx.notify(topic(authorization_id))\n",
        "",
        WITHDRAWAL,
        "refreshing and sqlite",
    ),
    Mutant(
        "What a seller withdraws is dead",
        "a refresh does not look whether the seller has withdrawn",
        "paydesk/engine/oauth/grants.py",
        "    if credential.withdrawn_ms is not None:\n",
        "    if credential.withdrawn_ms == 0:\n",
        WITHDRAWAL,
        "refreshing and sqlite",
    ),
    Mutant(
        "A withdrawal is notified once",
        "withdrawing does not look whether it was done",
        "paydesk/engine/oauth/authorizations.py",
        "WHERE seller_id = $1 AND authorization_id = $2 AND {_VALID}",
        "WHERE seller_id = $1 AND authorization_id = $2",
        WITHDRAWAL,
        "many_times and postgres",
    ),
    Mutant(
        "A withdrawal is notified",
        "who may hear nothing more does not hear of that either",
        "paydesk/engine/webhooks/delivery/store.py",
        "              OR (s.topic = 'orders'\n                  AND EXISTS",
        "              OR (EXISTS",
        WITHDRAWAL,
        "delivered and sqlite",
    ),
    Mutant(
        "Two operators undo nothing of each other's",
        "an application that is changed, or is given a secret, is not held",
        "paydesk/engine/oauth/clients/applications.py",
        'LOCK = f"{GET} FOR UPDATE"',
        "LOCK = GET",
        OPERATORS,
        "undo and postgres or too_many and postgres",
    ),
    Mutant(
        "An e-mail address is one seller's",
        "an address is looked for before it is taken, not claimed",
        "paydesk/engine/sellers/store.py",
        "not await _claim_email(tx, seller_id, email)",
        "await find_by_email(tx, email)",
        OPERATORS,
        "about_to and new and postgres",
    ),
    Mutant(
        "A removed secret stops working at once",
        "what is remembered of clients does not hear of changes",
        "paydesk/engine/oauth/clients/authentication.py",
        'clear_on("applications")',
        'clear_on("nothing")',
        PARTIES,
        "remove_secret",
    ),
    Mutant(
        "Who is suspended is signed out",
        "suspending a seller leaves the sessions",
        "paydesk/operators/sellers/handlers.py",
        "        await SELLERS.end_all(call.tx, seller.seller_id, call.now_ms)\n",
        "",
        SELLERS,
        "signed_in and sqlite",
    ),
    Mutant(
        "No secret is in a log",
        "log lines are not masked",
        "paydesk/platform/logs.py",
        "            redact,\n",
        "",
        "tests/unit/test_cli_redaction.py",
    ),
    Mutant(
        "No secret is in a log",
        "the line of a request is not masked",
        "paydesk/platform/http/request_log.py",
        'if texts and carries_secret("\\n".join(texts)):',
        "if False:",
        SECRETS,
        "sqlite",
    ),
    Mutant(
        "No secret is in a log",
        "the path of an order that does not exist is not masked",
        "paydesk/platform/http/endpoint.py",
        "            if self._has_known_path and reply.status < 400:",
        "            if self._has_known_path:",
        "tests/contract/test_http_request_log.py",
        "client_sent and sqlite",
    ),
    Mutant(
        "No secret is in the database",
        "a result that can't be read is stored as it came",
        "paydesk/engine/device/rules/reports.py",
        '        return _received(None, {"bytes": len(raw), "digest": keyed_digest(keys, raw)})',
        '        return _received(None, {"raw": raw.decode(errors="replace").replace("\\0", "")})',
        "tests/contract/test_device_unreadable.py",
        "sqlite",
    ),
    Mutant(
        "No card data is in the database",
        "a name of an unknown field is stored whatever it is",
        "paydesk/engine/device/rules/reports.py",
        "    return name if _NAME.fullmatch(name) and redaction.redacted(name) == name else MASK",
        "    return name",
        "tests/contract/test_device_unreadable.py",
        "sqlite",
    ),
    Mutant(
        "No card data is in the database",
        "a receiver's answer is stored as it came",
        "paydesk/engine/webhooks/delivery/sending.py",
        'redacted_answer(raw.decode("utf-8", "replace").replace("\\0", "\\N{REPLACEMENT CHARACTER}"))',
        'raw.decode("utf-8", "replace").replace("\\0", "\\N{REPLACEMENT CHARACTER}")',
        "tests/workers/test_webhooks_delivery.py",
        "card_data and sqlite",
    ),
    Mutant(
        "No secret is in a log",
        "a path is cut before it is masked",
        "paydesk/platform/http/request_log.py",
        'redacted(plain, "path")',
        'redacted(plain[:PATH_CHARACTERS_MAX], "path")',
        "tests/unit/test_log_mask.py",
    ),
    Mutant(
        "No secret is in the database",
        "the audit trail keeps an application's secret",
        "paydesk/operators/applications/handlers.py",
        "answer.client_id, after=answer)",
        "answer.client_id, after=NewApplication.of(answer, client_secret=secret.reveal()))",
        SECRETS,
        "sqlite",
    ),
    Mutant(
        "Official clients take our signatures",
        "the id is signed in upper case",
        "paydesk/engine/webhooks/signatures/signature.py",
        '(("id", data_id),',
        '(("id", data_id.upper()),',
        CLIENTS,
        "validators_take",
    ),
    Mutant(
        "Load is shed early",
        "one unit of work more than there is room for",
        "paydesk/platform/storage/bounded.py",
        "if self._in_progress >= self._units_max:",
        "if self._in_progress > self._units_max:",
        BOUNDED,
        "above_the_limit",
    ),
    Mutant(
        "A node that can't serve says so",
        "a database that hangs is taken for one that answers",
        "paydesk/platform/health/readiness.py",
        "return check.result() if done else _unreachable(",
        "return check.result() if done else None and _unreachable(",
        HEALTH,
        "hangs",
    ),
    Mutant(
        "A node with a wrong clock judges nothing by it",
        "a node's clock is not compared with the database's",
        "paydesk/platform/health/clock.py",
        '        if database.name == "sqlite":',
        '        if database.name in ("sqlite", "postgres"):',
        DIFFERENT_CLOCKS,
        "do_no_harm",
    ),
    *OUTCOME_MUTANTS,
    *TOKEN_MUTANTS,
    *SECURITY_MUTANTS,
    *ACQUIRER_MUTANTS,
    *AUTHORIZE_MUTANTS,
    *PORT_MUTANTS,
    *CONFIRMATION_MUTANTS,
    Mutant(
        "What a seller decides at the browser is decided once",
        "a page can be answered any number of times",
        "paydesk/engine/oauth/consent/requests.py",
        "session_digest = $3 AND decided_ms IS NULL AND expires_ms > $4\n",
        "session_digest = $3 AND expires_ms > $4\n",
        PAGES_RACES,
        "answered_once",
    ),
    Mutant(
        "What a seller decides at the browser is decided once",
        "what was asked of one session is another's to answer",
        "paydesk/engine/oauth/consent/requests.py",
        "digest = $2 AND session_digest = $3 AND decided_ms IS NULL AND expires_ms > $4\n",
        "digest = $2 AND (session_digest = $3 OR 1 = 1) AND decided_ms IS NULL AND expires_ms > $4\n",
        PAGES_CONSENT,
        "another_session",
    ),
    Mutant(
        "What a seller decides at the browser is decided once",
        "an application that was changed meanwhile is given a code all the same",
        "paydesk/engine/oauth/consent/requests.py",
        "    if refusal is not None:\n        return refusal\n    if not is_first:\n",
        "    if not is_first:\n",
        PAGES_CONSENT,
        "changed_meanwhile",
    ),
    Mutant(
        "Only the seller acts at the seller's browser",
        "PostgreSQL: a session begins while another password is being set, and outlives it",
        "paydesk/engine/sellers/accounts.py",
        " AND {self.barred} IS NULL FOR SHARE",
        " AND {self.barred} IS NULL",
        PAGES_RACES,
        "new_password and postgres",
    ),
    Mutant(
        "Only the seller acts at the seller's browser",
        "signing out ends nothing on the server",
        "paydesk/engine/oauth/pages/sign_in.py",
        "        if await call.database.write(end_session):\n",
        "        if True:\n",
        PAGES_SIGN_IN,
        "signing_out",
    ),
    Mutant(
        "Only the seller acts at the seller's browser",
        "a form of another browser signs in",
        "paydesk/engine/oauth/pages/sign_in.py",
        "not request.is_form_token_valid(SIGN_IN, sent.form_token, ANONYMOUS)",
        "not sent.form_token",
        PAGES_SIGN_IN,
        "signs_in_no_seller",
    ),
    *SESSION_MUTANTS,
    *SIGN_IN_MUTANTS,
    *REFUND_MUTANTS,
    *REMOVAL_MUTANTS,
    *EVENT_MUTANTS,
    *MODEL_MUTANTS,
    *PAIRING_MUTANTS,
    *PRINT_MUTANTS,
)


@contextmanager
def planted(mutant: Mutant, folder: Path) -> Iterator[None]:
    """Make the defect in the copy until the end of the block. Fails where the text to replace is not there once."""
    file = folder / "src" / mutant.file
    text = file.read_text()
    assert text.count(mutant.before) == 1, f"{mutant.defect}: does not apply to {mutant.file} any more"
    _write(file, text.replace(mutant.before, mutant.after))
    try:
        yield
    finally:
        _write(file, text)


def _write(file: Path, text: str) -> None:
    """Write the text with a later time than before: bytecode is known by the second and the length."""
    later = file.stat().st_mtime + 2
    file.write_text(text)
    os.utime(file, (later, later))


def passes(test: str, which: str, folder: Path) -> bool:
    """Whether the test passes in the copy."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    if which:
        command += ["-k", which]
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "src"),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
    }
    finished = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    output = finished.stdout + finished.stderr
    assert finished.returncode in (0, 1), output[-2000:]
    # A failed test may also fail to clean up; an error without a failure detects nothing.
    assert "\nFAILED tests" in output or "\nERROR tests" not in output, output[-2000:]
    return finished.returncode == 0


@contextmanager
def copied() -> Iterator[Path]:
    """The project without what is made from it, in a folder of its own until the end of the block."""
    ignored = shutil.ignore_patterns("__pycache__")
    with tempfile.TemporaryDirectory(prefix="paydesk-mutant-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for part in COPIED:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, folder / part, ignore=ignored)
            else:
                shutil.copy(ROOT / part, folder / part)
        yield folder


def tried(mutant: Mutant, folder: Path) -> str:
    """One line of the table, by a defect in this copy, which is sound again afterwards."""
    started = time.monotonic()
    with planted(mutant, folder):
        caught = not passes(mutant.test, mutant.which, folder)
    test = f"`{mutant.test.removeprefix('tests/')}`" + (f" ({mutant.which})" if mutant.which else "")
    seconds = round(time.monotonic() - started)
    return f"| {mutant.promise} | {mutant.defect} | {test} | {'caught' if caught else 'NOT CAUGHT'} | {seconds} s |"


def sound(mutants: list[Mutant], folder: Path) -> None:
    """Every test passes where nothing is wrong; otherwise a caught mutant would say nothing."""
    for test, which in sorted({(mutant.test, mutant.which) for mutant in mutants}):
        assert passes(test, which, folder), f"{test} ({which}) fails without any mutant"


def main(words: list[str]) -> int:
    """Try the mutants that have every word; 1 when one is not caught."""
    write, words = "--write" in words, [word for word in words if not word.startswith("--")]
    chosen = [
        mutant for mutant in MUTANTS if all(word in f"{mutant.promise} {mutant.defect} {mutant.test}" for word in words)
    ]
    lines = ["| Promise | Mutant | Test | Result | Took |", "|---|---|---|---|---|"]
    with copied() as folder:
        sound(chosen, folder)
        print("\n".join(lines), flush=True)  # noqa: T201 - a script's answer
        for mutant in chosen:
            lines.append(tried(mutant, folder))
            print(lines[-1], flush=True)  # noqa: T201 - the same
    if write:
        introduction = TABLE.read_text().partition("| Promise")[0]
        TABLE.write_text(introduction + "\n".join(lines) + "\n")
    return int(any("NOT CAUGHT" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
