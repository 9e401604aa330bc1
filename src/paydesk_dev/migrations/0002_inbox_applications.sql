-- runs with 0.2.0
-- The demo inbox: whose notification it is, so that each application's are found and trimmed beside those of others.
ALTER TABLE demo_inbox ADD COLUMN application_id bigint NOT NULL DEFAULT 0;  -- 0: none
CREATE INDEX demo_inbox_application ON demo_inbox (application_id, entry_number);
UPDATE demo_inbox
   SET application_id = COALESCE((SELECT o.application_id FROM orders o
                                   WHERE o.live IN (0, 1) AND o.order_id = demo_inbox.order_id AND o.seller_id > 0), 0)
 WHERE order_id <> '';
