"""The defects that belong to tokens: whose they are, what they are good for, how often they come and when they end."""

from __future__ import annotations

from mutant import Mutant

GRANTS = "paydesk/engine/oauth/grants.py"

TOKEN = "tests/contract/test_oauth_token.py"
TOKEN_ERRORS = "tests/contract/test_oauth_token_errors.py"
KINDS = "tests/contract/test_live_and_test.py"
PROVEN = "tests/contract/test_oauth_authentication_cache.py"
OAUTH_RACES = "tests/races/test_oauth_races.py"
TOKENS = "tests/races/test_promises_tokens.py"

GUARD = '{lifecycle.REFRESH.guard("token_families")}'
CLAIM = f"""
    WHERE seller_id = $1 AND family_id = $2 AND generation = $3 AND {GUARD}""\"

# active -> expired"""

OF_THE_CODE = """
        self._check_client(code)
        check_authorization(code, self.application)
        if request.redirect_uri != code.redirect_uri:
            raise INVALID_GRANT.with_reason("redirect_uri differs")
        self._check_redirect_uri()
        _check_verifier(request.code_verifier, code.challenge)"""

OF_ITS_TIME = """
        refusal = await self._refuse_used_or_expired(code)
        if refusal is not None:
            return refusal"""

TOKEN_MUTANTS = (
    Mutant(
        "A code mints once",
        "a redeemed code is sent again by the consent page",
        "paydesk/engine/oauth/consent/requests.py",
        "not row.is_valid(now_ms)",
        "False",
        "tests/contract/test_pages_consent.py",
        "redeemed_code",
    ),
    Mutant(
        "A code mints once",
        "a code that comes again at once ends its tokens",
        GRANTS,
        "code.exchanged_ms + self.code_repeat_seconds * 1000:\n",
        "code.exchanged_ms:\n",
        TOKEN,
        "reused_within_10_s and sqlite",
    ),
    Mutant(
        "A code mints once",
        "a code that comes again later leaves its tokens alone",
        GRANTS,
        "        await self._revoke(code, ",
        "        (code, ",
        TOKEN,
        "reused_after_10_s and sqlite",
    ),
    Mutant(
        "A code mints once",
        "an exchange by another client ends the tokens of the code",
        GRANTS,
        OF_THE_CODE + OF_ITS_TIME,
        OF_ITS_TIME + OF_THE_CODE,
        TOKEN,
        "failed_exchange and sqlite",
    ),
    Mutant(
        "A code is of use to its own application alone",
        "an exchange does not look whose the code is",
        GRANTS,
        "        self._check_client(code)\n",
        "",
        TOKEN_ERRORS,
        "exchange_is_refused and sqlite",
    ),
    Mutant(
        "A code is of use to its own application alone",
        "an exchange takes any redirect_uri that is registered",
        GRANTS,
        "        if request.redirect_uri != code.redirect_uri:\n",
        "        if not code.redirect_uri:\n",
        TOKEN_ERRORS,
        "of_two_addresses and sqlite",
    ),
    Mutant(
        "A code is of use to its own application alone",
        "an exchange takes a redirect_uri that is registered no more",
        GRANTS,
        "        self._check_redirect_uri()\n        _check_verifier",
        "        _check_verifier",
        TOKEN_ERRORS,
        "exchange_is_refused and sqlite",
    ),
    Mutant(
        "A code is of use to its own application alone",
        "the verifier is not compared with the challenge",
        GRANTS,
        "    elif not same(_challenge(verifier), challenge):\n",
        "    elif not same(challenge, challenge):\n",
        TOKEN_ERRORS,
        "verifier_that_differs and sqlite",
    ),
    Mutant(
        "A code is of use to its own application alone",
        "a code with a challenge is exchanged without a verifier",
        GRANTS,
        '    elif not verifier:\n        raise INVALID_GRANT.with_reason("code_verifier is missing")\n    elif',
        "    elif verifier and",
        TOKEN_ERRORS,
        "exchange_is_refused and sqlite",
    ),
    Mutant(
        "A code is of use to its own application alone",
        "a verifier is taken although there was no challenge",
        GRANTS,
        "        if verifier:\n",
        "        if not verifier.isascii():\n",
        TOKEN_ERRORS,
        "exchange_is_refused and sqlite",
    ),
    Mutant(
        "A refresh token is of use to its own application alone",
        "a refresh does not look whose the token is",
        GRANTS,
        "        self._check_client(token)\n",
        "",
        TOKEN_ERRORS,
        "refresh_is_refused and sqlite",
    ),
    Mutant(
        "Tokens are issued only for the right secret",
        "any secret of a known client is taken",
        "paydesk/engine/oauth/clients/authentication.py",
        "    matching = [row for row in rows if hmac.compare_digest(given, row[12] or _UNKNOWN_CLIENT_DIGEST)]\n",
        "    matching = rows\n",
        TOKEN_ERRORS,
        "is_refused and sqlite",
    ),
    Mutant(
        "Tokens are issued only for the right secret",
        "a client that this node remembers is let in with any secret",
        "paydesk/engine/oauth/clients/authentication.py",
        "        if entry is None or not hmac.compare_digest(digest(client_secret), entry.secret_digest):\n",
        "        if entry is None:\n",
        PROVEN,
        "another_secret_is_refused and sqlite",
    ),
    Mutant(
        "A refresh token has one successor",
        "what is two generations behind is a replay at once",
        GRANTS,
        "second_successor.created_ms if second_successor else 0\n",
        "0\n",
        "tests/races/test_shared_token.py",
        "sqlite",
    ),
    Mutant(
        "A refresh token has one successor",
        "a repeat is honest for half a minute alone",
        GRANTS,
        "self.refresh_repeat_seconds * 1000",
        "self.refresh_repeat_seconds * 500",
        TOKEN,
        "answered_for_a_minute and sqlite",
    ),
    Mutant(
        "A refresh token has one successor",
        "a retry after a lost answer is refused",
        GRANTS,
        "            return await self._retry(token)\n",
        '            raise INVALID_GRANT.with_reason("used")\n',
        "tests/races/test_lost_answers.py",
        "without_responses and sqlite",
    ),
    Mutant(
        "A refresh token has one successor",
        "a retry makes another successor",
        GRANTS,
        "        return tokens.derive(self.keys, family, successor)\n",
        "        number = token.newest_generation\n"
        "        store.claim_successor(self.tx, family, number)\n"
        "        return store.issue(\n"
        "            self.tx, self.keys, family, number + 1, successor.scope, self.now_ms, self.lifetimes\n"
        "        )\n",
        TOKENS,
        "successor and postgres",
    ),
    Mutant(
        "A replayed refresh token ends its family",
        "a replay is refused and the family goes on",
        GRANTS,
        '        if self.application.on_replay == "revoke":\n',
        '        if self.application.on_replay == "end":\n',
        TOKEN,
        "a_replay_revokes and sqlite",
    ),
    Mutant(
        "A replayed refresh token ends its family",
        "a used token can be retried without limit",
        GRANTS,
        "        if token.newest_generation > token.generation + 1:\n",
        "        if token.newest_generation < token.generation:\n",
        TOKEN,
        "a_replay_revokes and sqlite",
    ),
    Mutant(
        "A replayed refresh token ends its family",
        "an application that is set to refuse loses its family all the same",
        GRANTS,
        '        if self.application.on_replay == "revoke":\n',
        "        if self.application.on_replay:\n",
        TOKEN,
        "only_refused_with and sqlite",
    ),
    Mutant(
        "A replayed refresh token ends its family",
        "the end of the family is undone with the refusal",
        GRANTS,
        '        return INVALID_GRANT.with_reason("refresh token replayed")\n',
        '        raise INVALID_GRANT.with_reason("refresh token replayed")\n',
        TOKEN,
        "a_replay_revokes and sqlite",
    ),
    Mutant(
        "A revoked family has no successor",
        "a refresh that waited for a revocation makes one",
        "paydesk/engine/oauth/store.py",
        CLAIM,
        CLAIM.replace(GUARD, "expired_ms IS NULL"),
        OAUTH_RACES,
        "waits_for_a_revocation and postgres",
    ),
    Mutant(
        "What was refused as expired stays so",
        "a refresh that waited for another node's refusal makes a successor",
        "paydesk/engine/oauth/store.py",
        CLAIM,
        CLAIM.replace(GUARD, "revoked_ms IS NULL"),
        OAUTH_RACES,
        "another_nodes_refusal and postgres",
    ),
    Mutant(
        "What was refused as expired stays so",
        "a code that was refused as expired is looked at by the clock alone",
        GRANTS,
        "        if code.expired_ms is not None or self.now_ms >= code.expires_ms:\n",
        "        if self.now_ms >= code.expires_ms:\n",
        TOKEN,
        "stays_expired and sqlite",
    ),
    Mutant(
        "What was refused as expired stays so",
        "the refusal of an expired refresh token is not written down",
        GRANTS,
        '        return INVALID_GRANT.with_reason("refresh token expired") if recorded',
        "        if recorded:\n"
        '            raise INVALID_GRANT.with_reason("refresh token expired")\n'
        '        return INVALID_GRANT.with_reason("") if recorded',
        TOKEN,
        "stays_expired and sqlite",
    ),
    Mutant(
        "A token has no more than was granted",
        "an exchange may ask for what the seller did not grant",
        GRANTS,
        "narrow(code.scope, request.scope)",
        "narrow(self.application.scopes, request.scope)",
        TOKEN_ERRORS,
        "exchange_is_refused and sqlite",
    ),
    Mutant(
        "A token has no more than was granted",
        "a refresh may ask for what the seller did not grant",
        GRANTS,
        "        scope = narrow(token.scope, request.scope)\n",
        "        scope = narrow(self.application.scopes, request.scope)\n",
        TOKEN_ERRORS,
        "refresh_is_refused and sqlite",
    ),
    Mutant(
        "A token has no more than was granted",
        "what was left out at the exchange comes back with a refresh",
        "paydesk/engine/oauth/store.py",
        "        int(family.live),\n        family.scope,\n",
        '        int(family.live),\n        "offline_access read write",\n',
        TOKEN,
        "narrows_the_family and sqlite",
    ),
    Mutant(
        "A token has no more than was granted",
        "an access token opens what its scope does not name",
        "paydesk/platform/http/endpoint.py",
        "            if scope not in caller.scopes:\n",
        "            if scope not in {scope}:\n",
        "tests/contract/test_http_authorization.py",
        "test_scopes and sqlite",
    ),
    Mutant(
        "Live and test never meet",
        "a refresh changes the kind of its family's tokens",
        GRANTS,
        "        if request.wants_test is not None and request.wants_test == token.live:\n",
        "        if request.wants_test is not None and request.wants_test is None:\n",
        TOKEN_ERRORS,
        "refresh_is_refused and sqlite",
    ),
    Mutant(
        "Live and test never meet",
        "an order of the other kind is found",
        "paydesk/engine/orders/handlers.py",
        "    if order is None or bool(order.live) != call.caller.live:\n",
        "    if order is None:\n",
        KINDS,
        "get_order and sqlite",
    ),
    Mutant(
        "Live and test never meet",
        "an order is made for a terminal of the other kind",
        "paydesk/engine/orders/handlers.py",
        "    if terminal is None or terminal.live != order.live:\n",
        "    if terminal is None:\n",
        KINDS,
        "create_order and sqlite",
    ),
    Mutant(
        "Live and test never meet",
        "a terminal of the other kind is set up",
        "paydesk/engine/terminals/modes.py",
        " for terminal in locked if bool(terminal.live) == live}",
        " for terminal in locked}",
        KINDS,
        "setup_terminals and sqlite",
    ),
    Mutant(
        "Live and test never meet",
        "terminals of the other kind are listed",
        "paydesk/engine/terminals/store.py",
        "    which = (seller_id, int(live), store_id, pos_id)\n",
        "    which = (seller_id, 1, store_id, pos_id)\n",
        KINDS,
        "list_terminals and sqlite",
    ),
)
