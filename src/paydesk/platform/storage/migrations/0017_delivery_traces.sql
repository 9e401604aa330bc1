-- runs with 0.2.0
-- Deliveries: the trace of the request that caused the event, as `traceparent`, a space, and `tracestate` if there is one.

ALTER TABLE deliveries ADD COLUMN trace text;  -- NULL: none, or an older node's event
