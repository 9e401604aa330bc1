-- What is pruned is found by an index, a seller at a time. They are partial where they can be: a row is in them from its
-- end on, so that nothing is added to the path of an order or of a token but one entry for its key, at the index's end.

CREATE INDEX idempotency_keys_age ON idempotency_keys (seller_id, operation, created_ms);
CREATE INDEX deliveries_ended ON deliveries (seller_id, ended_ms) WHERE ended_ms IS NOT NULL;
CREATE INDEX codes_age ON codes (seller_id, expires_ms);
CREATE INDEX device_tokens_revoked ON device_tokens (seller_id, revoked_ms) WHERE revoked_ms IS NOT NULL;
CREATE INDEX device_tokens_terminal ON device_tokens (seller_id, terminal_id);
CREATE INDEX terminal_sessions_age ON terminal_sessions (seller_id, created_ms);
