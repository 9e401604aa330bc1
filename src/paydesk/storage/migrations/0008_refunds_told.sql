-- When operators were told of a refund that stays without an outcome.
ALTER TABLE refunds ADD COLUMN alerted_ms bigint;
