"""Tokens with their families and codes, and idempotency keys."""

from __future__ import annotations

from paydesk.engine.invariants.rule import KEPT_MS_MIN, Rule

INCOMPLETE_MS_MAX = 60_000

# The bounds of a page, as for orders.
_FAMILIES_OF_PAGE = "(c.seller_id, c.family_id) > ($1, $2) AND (c.seller_id, c.family_id) <= ($3, $4)"

NEXT_FAMILIES = """
SELECT seller_id, family_id FROM token_families WHERE (seller_id, family_id) > ($1, $2)
 ORDER BY seller_id, family_id LIMIT $3"""

PAGE_RULES = tuple(
    Rule(
        f"{table}_generations",
        f"the family is at generation {{0}} and has {{1}} {table}, from {{2}} to {{3}}",
        f"""
        SELECT c.seller_id, c.authorization_id, c.generation, COUNT(*), MIN(t.generation), MAX(t.generation)
          FROM token_families c JOIN {table} t ON t.seller_id = c.seller_id AND t.family_id = c.family_id
         WHERE {_FAMILIES_OF_PAGE}
         GROUP BY c.seller_id, c.family_id, c.authorization_id, c.generation
        HAVING COUNT(*) <> MAX(t.generation) - MIN(t.generation) + 1 OR MAX(t.generation) <> c.generation""",
    )
    for table in ("access_tokens", "refresh_tokens")
)

WHOLE_RULES = (
    Rule(
        "family_without_tokens",
        "the family is at generation {0} and has no access token of that generation",
        """
        SELECT c.seller_id, c.authorization_id, c.generation FROM token_families c
         WHERE c.revoked_ms IS NULL AND NOT EXISTS (
               SELECT 1 FROM access_tokens t
                WHERE t.seller_id = c.seller_id AND t.family_id = c.family_id AND t.generation = c.generation)""",
    ),
    # A family is pruned no earlier than `KEPT_MS_MIN` after its code was exchanged.
    Rule(
        "code_without_family",
        "the code exchanged at {0} (epoch milliseconds) has no token family",
        f"""
        SELECT k.seller_id, k.authorization_id, k.exchanged_ms FROM codes k
         WHERE k.exchanged_ms > CAST($1 AS bigint) - {KEPT_MS_MIN} AND NOT EXISTS (
               SELECT 1 FROM token_families c WHERE c.seller_id = k.seller_id AND c.family_id = k.family_id)""",
        timed=True,
    ),
    Rule(
        "key_without_response",
        "the key of {0} has no stored response",
        f"""
        SELECT seller_id, CASE WHEN object_id = '' THEN idempotency_key ELSE object_id END, operation
          FROM idempotency_keys
         WHERE (status IS NULL OR answer IS NULL)
           AND created_ms < CAST($1 AS bigint) - {INCOMPLETE_MS_MAX}""",
        timed=True,
    ),
)
