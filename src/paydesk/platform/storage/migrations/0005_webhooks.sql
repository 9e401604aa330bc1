-- Webhooks: secrets that are rotated, pauses, resends, and what each attempt sent.

-- At most two secrets of a subscription are valid; each is derived from its generation and the server key. Rows are
-- kept, so that no generation is used twice.
CREATE TABLE subscription_secrets (
    subscription_id    text     NOT NULL,
    generation         bigint   NOT NULL,
    key_version        bigint   NOT NULL,
    created_ms         bigint   NOT NULL,
    dropped_ms         bigint,
    PRIMARY KEY (subscription_id, generation)
);

INSERT INTO subscription_secrets (subscription_id, generation, key_version, created_ms)
SELECT subscription_id, secret_generation, key_version, created_ms FROM subscriptions;

ALTER TABLE subscriptions DROP COLUMN key_version;      -- secret_generation is the primary secret's

-- While a subscription is paused, its deliveries stay pending, with a next_ms that is never reached.
ALTER TABLE subscriptions ADD COLUMN paused_ms bigint;
ALTER TABLE subscriptions ADD COLUMN paused_by text CHECK (paused_by IN ('operator', 'failures'));
ALTER TABLE subscriptions ADD COLUMN failing_since_ms bigint;  -- the first failure after the last success
ALTER TABLE subscriptions ADD COLUMN failed_ms bigint;         -- a recent failure, to the hour
-- Deliveries created after this time that wait for a retry are made due. 0: all of them, and their schedules start anew.
ALTER TABLE subscriptions ADD COLUMN forward_ms bigint;
ALTER TABLE subscriptions ADD COLUMN actions_ms bigint;        -- when `actions` were last changed
ALTER TABLE subscriptions ADD COLUMN fault text;               -- development only: JSON, see `webhooks.faults`
ALTER TABLE subscriptions ADD COLUMN fault_count bigint NOT NULL DEFAULT 0;  -- notifications that the fault counted

ALTER TABLE deliveries ADD COLUMN uncounted bigint NOT NULL DEFAULT 0;  -- attempts that the schedule does not count
ALTER TABLE deliveries ADD COLUMN resend_ms bigint;                     -- when an attempt outside the schedule was requested
ALTER TABLE deliveries ADD COLUMN fault_ordinal bigint;  -- development only: its number, by which a fault affects it

CREATE INDEX deliveries_resend ON deliveries (seller_id, subscription_id, resend_ms) WHERE resend_ms IS NOT NULL;

-- The deliveries of a subscription that an operator can replay.
CREATE INDEX deliveries_replay ON deliveries (subscription_id, seller_id, order_id, version)
 WHERE (status = 'exhausted' OR status = 'superseded');

-- The worker looks for due deliveries one subscription at a time: a long backlog of one is not scanned for the others.
DROP INDEX deliveries_due;
CREATE INDEX deliveries_due ON deliveries (subscription_id, next_ms) WHERE status = 'pending';

ALTER TABLE attempts ADD COLUMN request text NOT NULL DEFAULT '';  -- JSON: the URL and the headers that were sent

-- The oldest parked delivery of a seller is found by age.
DROP INDEX deliveries_open;
CREATE INDEX deliveries_open ON deliveries (subscription_id, seller_id, next_ms, created_ms) WHERE status = 'pending';

-- Development only: what the page of the demo inbox filters by, and how it checked the signatures (JSON).
ALTER TABLE demo_inbox ADD COLUMN action text NOT NULL DEFAULT '';
ALTER TABLE demo_inbox ADD COLUMN order_id text NOT NULL DEFAULT '';   -- in upper case
ALTER TABLE demo_inbox ADD COLUMN checks text NOT NULL DEFAULT '';

-- Development only: a reset removed the events up to this number. Later ones go on from it.
ALTER TABLE event_counters ADD COLUMN reset_number bigint NOT NULL DEFAULT 0;
