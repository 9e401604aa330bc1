-- runs with 0.2.0
CREATE INDEX CONCURRENTLY operator_events_unannounced ON operator_events (created_ms) WHERE announced_ms IS NULL;
