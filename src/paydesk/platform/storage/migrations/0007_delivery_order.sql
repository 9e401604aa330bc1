-- Operators list the deliveries of a seller newest first.
CREATE INDEX deliveries_age ON deliveries (seller_id, created_ms);
