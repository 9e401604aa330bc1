-- Money that goes back, and outcomes that are asked for. What the version before wrote has the columns' defaults.

-- Reserved by refunds that are under way: paid_minor - refunded_minor - refunding_minor is what is left.
ALTER TABLE orders ADD COLUMN refunding_minor bigint NOT NULL DEFAULT 0;
-- JSON, as it is shown: none where nothing was ever to be given back, and nobody looks into the table of refunds.
ALTER TABLE orders ADD COLUMN refunds text;

ALTER TABLE refunds ADD COLUMN live smallint NOT NULL DEFAULT 0;
ALTER TABLE refunds ADD COLUMN attempts bigint NOT NULL DEFAULT 0;
ALTER TABLE refunds ADD COLUMN next_ms bigint NOT NULL DEFAULT 0;
ALTER TABLE refunds ADD COLUMN claimed_until_ms bigint NOT NULL DEFAULT 0;  -- by the machine's clock
ALTER TABLE refunds ADD COLUMN unsent bigint NOT NULL DEFAULT 0;  -- of the attempts, those that surely never left
-- The idempotency key whose answer it is.
ALTER TABLE refunds ADD COLUMN application_id bigint NOT NULL DEFAULT 0;
ALTER TABLE refunds ADD COLUMN idempotency_key text NOT NULL DEFAULT '';
ALTER TABLE inquiries ADD COLUMN claimed_until_ms bigint NOT NULL DEFAULT 0;
ALTER TABLE reversals ADD COLUMN claimed_until_ms bigint NOT NULL DEFAULT 0;

ALTER TABLE inquiries ADD COLUMN reversing_ms bigint;  -- intent: it is undone at the acquirer, and never approved again
ALTER TABLE inquiries ADD COLUMN alerted_ms bigint;       -- an operator event says that a person is needed
ALTER TABLE reversals ADD COLUMN confirmed text CHECK (confirmed IN ('approved', 'not_found'));  -- by an inquiry
ALTER TABLE reversals ADD COLUMN alerted_ms bigint;

CREATE INDEX refunds_due ON refunds (next_ms, seller_id) WHERE status = 'processing';
CREATE INDEX refunds_open ON refunds (seller_id, next_ms) WHERE status = 'processing';

-- The simulated acquirer's book, in tables of its own, so that the two books can be compared.
CREATE TABLE simulator_payments (
    seller_id          bigint   NOT NULL,
    payment_id         text     NOT NULL,
    terminal_id        text     NOT NULL,
    live               smallint NOT NULL,
    amount_minor       bigint   NOT NULL,
    currency           text     NOT NULL,
    outcome            text     NOT NULL CHECK (outcome IN ('approved', 'declined')),
    detail             text,
    reference_id       text     NOT NULL,
    authorization_code text,
    card               text,               -- JSON
    installments       bigint   NOT NULL,
    visible_ms         bigint   NOT NULL,  -- a late answer: an inquiry finds nothing before
    refunded_minor     bigint   NOT NULL DEFAULT 0,
    reversed_ms        bigint,             -- of what was never authorized too: it is forbidden from then on
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, payment_id)
);

CREATE TABLE simulator_movements (
    seller_id          bigint   NOT NULL,
    movement_key       text     NOT NULL,
    kind               text     NOT NULL CHECK (kind IN ('refund', 'reversal')),
    payment_id         text     NOT NULL,
    amount_minor       bigint   NOT NULL,
    outcome            text     NOT NULL CHECK (outcome IN ('approved', 'declined')),
    detail             text,
    reference_id       text     NOT NULL,
    visible_ms         bigint   NOT NULL,
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, movement_key)
);

CREATE INDEX simulator_movements_payment ON simulator_movements (seller_id, payment_id);

-- How often something was asked, where its answer depends on that.
CREATE TABLE simulator_requests (
    seller_id          bigint   NOT NULL,
    operation          text     NOT NULL CHECK (operation IN ('payment', 'inquiry', 'refund', 'reversal')),
    request_key        text     NOT NULL,
    ordinal            bigint   NOT NULL,  -- the seller's first of its operation is 1
    requests           bigint   NOT NULL,
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, operation, request_key)
);

CREATE INDEX simulator_requests_ordinal ON simulator_requests (seller_id, operation, ordinal);
