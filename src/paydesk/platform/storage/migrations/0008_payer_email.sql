-- The buyer's e-mail address, if the request had one: personal data, deleted 120 days after the order was created.

ALTER TABLE orders ADD COLUMN payer_email text;

CREATE INDEX orders_payer_emails ON orders (seller_id, created_ms) WHERE payer_email IS NOT NULL;
