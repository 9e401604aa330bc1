-- What a search looks at beside the seller stands in an index: it is sorted and counted without reading an order.

CREATE INDEX orders_searched
    ON orders (seller_id, live, created_ms, order_id, status, status_detail, terminal_id, payment_method);
DROP INDEX orders_by_date;

CREATE INDEX orders_by_reference ON orders (seller_id, external_reference, live, created_ms, order_id)
    WHERE external_reference IS NOT NULL;
