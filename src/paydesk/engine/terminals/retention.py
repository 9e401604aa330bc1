"""The retention of the tokens and sessions of terminals, and of the content of print actions."""

from __future__ import annotations

from paydesk.platform.retention import Rule, prune

# A later session took over before $2; until then a terminal with the older boot id is refused as stale. The sum keeps
# SQLite from searching the later session by its age, through all sessions of the seller's terminals.
_SUPERSEDED = """EXISTS (SELECT 1 FROM terminal_sessions n WHERE n.seller_id = $1 AND n.terminal_id = o.terminal_id
                      AND n.session > o.session AND n.created_ms + 0 < $2)"""

RULES = (
    Rule(
        lambda settings: settings.idempotency_keep_days,
        prune("print_actions", "action_id", "updated_ms", "o.content IS NULL"),
    ),
    Rule(lambda settings: settings.tokens_keep_days, prune("device_tokens", "digest", "revoked_ms")),
    Rule(
        lambda settings: settings.tokens_keep_days,
        prune("terminal_sessions", "terminal_id, boot_id", "created_ms", _SUPERSEDED),
    ),
)
