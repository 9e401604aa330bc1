-- The acquirer's number of a payment belongs to one order of a merchant: whose it is, is decided by this key.

CREATE TABLE payment_references (
    seller_id          bigint   NOT NULL,
    live               smallint NOT NULL,  -- which acquirer
    reference_id       text     NOT NULL,
    order_id           text     NOT NULL,
    PRIMARY KEY (seller_id, live, reference_id)
);

INSERT INTO payment_references (seller_id, live, reference_id, order_id)
SELECT seller_id, live, reference_id, order_id FROM orders WHERE reference_id IS NOT NULL ON CONFLICT DO NOTHING;
