-- runs with 0.2.0
-- Operators are notified of what needs a person and of operator events. Their subscriptions, events and deliveries are
-- rows of the tables that applications have, under the application and the seller 1, which do not exist: nodes of the
-- version before deliver them too.

ALTER TABLE operator_events ADD COLUMN announced_ms bigint;  -- NULL: not yet, or operators had no subscription

-- One row: the node that moves next_ms on has compared what needs a person with `attention_items`.
CREATE TABLE attention_watch (
    watch              text     NOT NULL PRIMARY KEY,
    next_ms            bigint   NOT NULL,
    watching           smallint NOT NULL  -- 0: operators had no subscription, so the next comparison announces nothing
);

CREATE TABLE attention_items (
    item               text     NOT NULL PRIMARY KEY,  -- kind, mode, seller, store and subject
    thread             bigint   NOT NULL,  -- takes the place of the order's id: its end is sent after its beginning
    data               text     NOT NULL  -- JSON, as in the notification
);
