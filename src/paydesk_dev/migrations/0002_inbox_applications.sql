-- runs with 0.2.0
-- The demo inbox: whose notification it is, so that each application's are found and trimmed beside those of others.
ALTER TABLE demo_inbox ADD COLUMN application_id bigint NOT NULL DEFAULT 0;  -- 0: none, or older than this
CREATE INDEX demo_inbox_application ON demo_inbox (application_id, entry_number);
