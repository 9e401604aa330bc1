-- runs with 0.2.0
-- The open jobs of each kind, and the oldest. `seller_id > 0` holds for every row, and only this statement has it.
CREATE INDEX CONCURRENTLY inquiries_by_age ON inquiries (live, created_ms) WHERE ended_ms IS NULL AND seller_id > 0;
CREATE INDEX CONCURRENTLY reversals_by_age ON reversals (live, created_ms) WHERE status = 'pending' AND seller_id > 0;
CREATE INDEX CONCURRENTLY refunds_by_age ON refunds (live, created_ms) WHERE status = 'processing' AND seller_id > 0;
CREATE INDEX CONCURRENTLY confirmations_by_age ON confirmations (live, created_ms)
    WHERE (status = 'provisional' OR status = 'confirming') AND seller_id > 0;
