-- An order that was taken off its terminal, to be brought to a status without it: test orders alone.
ALTER TABLE orders ADD COLUMN detached_ms bigint;

-- The feed: every event gets its place in the feed of the application that made the order, live or test. Places are
-- given after the commit; what the version before writes is told whose it is before that.

ALTER TABLE order_events ADD COLUMN application_id bigint;  -- the order's
ALTER TABLE order_events ADD COLUMN live smallint;          -- the same
ALTER TABLE order_events ADD COLUMN number bigint;          -- from 1, without gaps within (seller, application, live)

CREATE INDEX order_events_unnumbered ON order_events (seller_id, application_id, live, order_id, version)
    WHERE number IS NULL;
CREATE UNIQUE INDEX order_events_numbered ON order_events (seller_id, application_id, live, number)
    WHERE number IS NOT NULL;

-- Whoever numbers holds the feed's row: one at a time.
CREATE TABLE event_counters (
    seller_id          bigint   NOT NULL,
    application_id     bigint   NOT NULL,
    live               smallint NOT NULL,
    last_number        bigint   NOT NULL,  -- given out
    first_number       bigint   NOT NULL,  -- still told: what was before is too old
    PRIMARY KEY (seller_id, application_id, live)
);
