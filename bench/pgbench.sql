-- What a create writes, in as few statements as can be and in one round trip: the terminal's row is locked, the key
-- claimed with its answer, the order and its event inserted, one durable commit. Each client goes through free
-- terminals of its own; the texts are those of an order that was made through the interface.
\set turn :turn + 1
\set serial :first + :turn * :clients + :client_id
\startpipeline
BEGIN;
SELECT live, operating_mode FROM terminals
 WHERE seller_id = CAST(:seller_id AS bigint) AND terminal_id = :prefix || CAST(CAST(:serial AS bigint) AS text)
   FOR UPDATE;
INSERT INTO idempotency_keys (seller_id, application_id, live, operation, object_id, idempotency_key, digest, status,
                              answer, replays, created_ms)
VALUES (CAST(:seller_id AS bigint), CAST(:application_id AS bigint), 0, 'create_order', '',
        'pgbench-' || CAST(CAST(:serial AS bigint) AS text), CAST(:digest AS bytea), 201, CAST(:answer AS bytea), 0,
        CAST(:now_ms AS bigint))
ON CONFLICT DO NOTHING;
INSERT INTO orders (seller_id, order_id, application_id, live, terminal_id, status, status_detail,
                    payment_status_detail, version, currency, country, amount, amount_minor, external_reference,
                    description, expiration_time, config, integration_data, created_ms, updated_ms, expires_ms,
                    refunded_minor)
VALUES (CAST(:seller_id AS bigint), 'ORD00PGBENCH000000000' || CAST(CAST(:serial AS bigint) AS text),
        CAST(:application_id AS bigint), 0, :prefix || CAST(CAST(:serial AS bigint) AS text), 'created', 'created',
        'created', 1, 'BRL', 'BRA', '24.90', 2490, 'ext_ref_1234', 'Smartphone', 'PT3H', :config, :integration_data,
        CAST(:now_ms AS bigint), CAST(:now_ms AS bigint), CAST(:now_ms AS bigint) + 10800000, 0)
ON CONFLICT DO NOTHING;
INSERT INTO order_events (seller_id, order_id, version, event_id, action, move, status, status_detail,
                          payment_status_detail, body, created_ms, application_id, live)
VALUES (CAST(:seller_id AS bigint), 'ORD00PGBENCH000000000' || CAST(CAST(:serial AS bigint) AS text), 1,
        '0d5020ed-1af6-469c-8a5f-000' || CAST(CAST(:serial AS bigint) AS text), 'order.created', 'create', 'created',
        'created', 'created', :body, CAST(:now_ms AS bigint), CAST(:application_id AS bigint), 0);
COMMIT;
\endpipeline
