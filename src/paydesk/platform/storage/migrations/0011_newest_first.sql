-- Operators list rows of all sellers newest first, page by page along an index. Ids begin with their times.
-- The condition holds for every row, and only statements about all sellers have it: PostgreSQL would read the rows of a
-- seller in these indexes too, and pass those of others. Nodes of the previous version ignore them.

-- The terminal is a filter.
CREATE INDEX orders_newest ON orders (live, order_id, seller_id, terminal_id) WHERE seller_id > 0;

-- Few orders have these: a new order is in neither index.
CREATE INDEX orders_newest_of_card ON orders (last_digits, order_id, seller_id)
    WHERE last_digits IS NOT NULL AND seller_id > 0;
CREATE INDEX orders_newest_by_status ON orders (status, order_id, seller_id)
    WHERE (status = 'canceled' OR status = 'failed' OR status = 'refunded' OR status_detail = 'partially_refunded')
      AND seller_id > 0;

CREATE INDEX refunds_newest ON refunds (refund_id, seller_id) WHERE seller_id > 0;
CREATE INDEX reversals_newest ON reversals (reversal_id, seller_id) WHERE seller_id > 0;
CREATE INDEX inquiries_newest ON inquiries (order_id, seller_id) WHERE seller_id > 0;

CREATE INDEX deliveries_newest ON deliveries (created_ms, seller_id, delivery_id) WHERE seller_id > 0;
CREATE INDEX deliveries_newest_failed ON deliveries (created_ms, seller_id, delivery_id)
    WHERE (status = 'exhausted' OR (status = 'pending' AND next_ms > created_ms AND next_ms < 253402300799000))
      AND seller_id > 0;
