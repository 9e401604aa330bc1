-- The demo inbox, which Paydesk's own migrations create so far.
CREATE TABLE IF NOT EXISTS demo_inbox (
    entry_number       bigint   NOT NULL PRIMARY KEY,  -- in order of arrival
    received_ms        bigint   NOT NULL,
    signature_valid    smallint NOT NULL,
    headers            text     NOT NULL,
    body               text     NOT NULL,
    signature_fault    text     NOT NULL DEFAULT '',   -- why it is not signed correctly, in a sentence
    action             text     NOT NULL DEFAULT '',
    order_id           text     NOT NULL DEFAULT '',   -- in upper case
    checks             text     NOT NULL DEFAULT ''    -- JSON: how the signatures were checked
);
