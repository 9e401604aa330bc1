-- runs with 0.2.0
-- Refunds: the payment's reference, so that each attempt has the same body although it became known in between.

ALTER TABLE refunds ADD COLUMN payment_reference_id text;  -- when it was requested; NULL: an older node's refund
