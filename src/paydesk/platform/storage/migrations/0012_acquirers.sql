-- Acquirers: the one that has an order, and provisional approvals, which a third message confirms or which are undone.

ALTER TABLE orders ADD COLUMN acquirer text;  -- of a live order, by name; NULL: none, or the order is older than this

-- What the acquirer declared when it was asked: it decides later, whatever it declares then.
ALTER TABLE lease_authorizations ADD COLUMN needs_confirmation smallint;

-- An acquirer's provisional approval of an authorization that the service requested: one for each order.
CREATE TABLE confirmations (
    seller_id          bigint   NOT NULL,
    order_id           text     NOT NULL,
    live               smallint NOT NULL,
    status             text     NOT NULL
        CHECK (status IN ('provisional', 'confirming', 'confirmed', 'undone', 'refused')),
    amount_minor       bigint   NOT NULL,
    currency           text     NOT NULL,
    reference_id       text     NOT NULL,
    authorization_code text,
    payment_method     text,               -- JSON, as responses have it
    card               text,               -- JSON, as responses have it
    issuer_data        bytea,              -- for the chip; NULL once confirmed or reversed
    chip_data          bytea,              -- for the issuer; NULL once confirmed or reversed
    approved_ms        bigint   NOT NULL,
    decide_by_ms       bigint   NOT NULL,  -- without a result by then the approval is undone
    deadline_ms        bigint,             -- the acquirer's, for the confirmation
    resolution         text,               -- what an operator says of a refused one
    attempts           bigint   NOT NULL DEFAULT 0,
    next_ms            bigint   NOT NULL,
    claimed_until_ms   bigint   NOT NULL DEFAULT 0,
    created_ms         bigint   NOT NULL,
    alerted_ms         bigint,             -- operators were alerted
    ended_ms           bigint,
    PRIMARY KEY (seller_id, order_id)
);

CREATE INDEX confirmations_due ON confirmations (next_ms, seller_id) WHERE status IN ('provisional', 'confirming');
CREATE INDEX confirmations_refused ON confirmations (ended_ms) WHERE status = 'refused' AND resolution IS NULL;
-- Operators list rows of all sellers newest first.
CREATE INDEX confirmations_newest ON confirmations (order_id, seller_id) WHERE seller_id > 0;

ALTER TABLE reversals ADD COLUMN refunding_ms bigint;  -- the reversal came too late, and since then it is a refund
ALTER TABLE reversals ADD COLUMN chip_data bytea;
ALTER TABLE refunds ADD COLUMN recorded_by text;       -- the operator who recorded a refund made at the acquirer

-- The simulated acquirer's confirmations ---------------------------------------------------------------------------
-- Tables of their own: the CHECKs of those for movements and requests do not allow them.

ALTER TABLE simulator_payments ADD COLUMN at_deadline text;         -- confirms, undoes, blocks; NULL: no confirmation
ALTER TABLE simulator_payments ADD COLUMN confirm_until_ms bigint;  -- the deadline, if there is one
ALTER TABLE simulator_payments ADD COLUMN confirmed_ms bigint;

CREATE TABLE simulator_confirmation_movements (  -- as simulator_movements
    seller_id          bigint   NOT NULL,
    movement_key       text     NOT NULL,
    kind               text     NOT NULL CHECK (kind = 'confirmation'),
    payment_id         text     NOT NULL,
    amount_minor       bigint   NOT NULL,
    outcome            text     NOT NULL CHECK (outcome IN ('approved', 'declined')),
    detail             text,
    reference_id       text     NOT NULL,
    visible_ms         bigint   NOT NULL,
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, movement_key)
);

CREATE INDEX simulator_confirmations_payment ON simulator_confirmation_movements (seller_id, payment_id);

CREATE TABLE simulator_confirmation_requests (  -- as simulator_requests
    seller_id          bigint   NOT NULL,
    operation          text     NOT NULL CHECK (operation = 'confirmation'),
    request_key        text     NOT NULL,
    ordinal            bigint   NOT NULL,
    requests           bigint   NOT NULL,
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, operation, request_key)
);

CREATE INDEX simulator_confirmation_requests_ordinal
    ON simulator_confirmation_requests (seller_id, operation, ordinal);
