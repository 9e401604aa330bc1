-- The tables. Times are epoch milliseconds (`…_ms`), money is minor units (`…_minor`), yes and no are 1 and 0.
-- `seller_id` comes first in every key of what a request conflict_keys: one request is one seller, one shard, one local
-- transaction.

-- Reference: small, cached, of nobody's shard ---------------------------------------------------------------------

CREATE TABLE applications (
    application_id     bigint   NOT NULL PRIMARY KEY,
    name               text     NOT NULL,
    redirect_uris      text     NOT NULL,  -- a JSON array
    scopes             text     NOT NULL,  -- space-separated, alphabetical
    pkce_required      smallint NOT NULL,
    on_replay          text     NOT NULL CHECK (on_replay IN ('revoke', 'refuse')),
    public_key_live    text     NOT NULL,
    public_key_test    text     NOT NULL,
    suspended_ms       bigint,
    created_ms         bigint   NOT NULL
);

CREATE TABLE application_secrets (
    application_id     bigint   NOT NULL,
    secret_id          text     NOT NULL,
    digest             bytea    NOT NULL,
    created_ms         bigint   NOT NULL,
    expires_ms         bigint,
    expired_ms         bigint,             -- the first refusal as expired writes it down
    PRIMARY KEY (application_id, secret_id)
);

CREATE TABLE sellers (
    seller_id          bigint   NOT NULL PRIMARY KEY,
    email              text     NOT NULL UNIQUE,
    name               text     NOT NULL,
    country            text     NOT NULL,  -- ISO 3166 alpha-3
    currency           text     NOT NULL,  -- ISO 4217
    password           text     NOT NULL,  -- Argon2id
    suspended_ms       bigint,
    created_ms         bigint   NOT NULL
);

CREATE TABLE stores (
    seller_id          bigint   NOT NULL,
    store_id           bigint   NOT NULL,
    name               text     NOT NULL,
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, store_id)
);

CREATE TABLE pos (
    seller_id          bigint   NOT NULL,
    pos_id             bigint   NOT NULL,
    store_id           bigint   NOT NULL,
    external_pos_id    text     NOT NULL,
    name               text     NOT NULL,
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, pos_id)
);

CREATE UNIQUE INDEX pos_external ON pos (seller_id, external_pos_id);

CREATE TABLE terminal_owners (
    terminal_id        text     NOT NULL PRIMARY KEY,
    seller_id          bigint   NOT NULL
);

CREATE TABLE subscriptions (
    subscription_id    text     NOT NULL PRIMARY KEY,  -- a UUID
    application_id     bigint   NOT NULL,
    live               smallint NOT NULL,
    topic              text     NOT NULL CHECK (topic IN ('orders', 'mp-connect')),
    url                text     NOT NULL,
    actions            text     NOT NULL,  -- a JSON array; empty = all
    secret_generation  bigint   NOT NULL,  -- the secret is derived from it under the server key
    key_version        bigint   NOT NULL,
    created_ms         bigint   NOT NULL,
    deleted_ms         bigint
);

CREATE TABLE operators (
    operator_id        text     NOT NULL PRIMARY KEY,
    name               text     NOT NULL,
    role               text     NOT NULL CHECK (role IN ('owner', 'operator', 'support')),
    digest             bytea    NOT NULL UNIQUE,
    created_ms         bigint   NOT NULL,
    revoked_ms         bigint
);

CREATE TABLE operator_audit (
    entry_id           text     NOT NULL PRIMARY KEY,  -- a ULID
    operator_id        text     NOT NULL,
    action             text     NOT NULL,
    subject            text     NOT NULL,
    address            text     NOT NULL,
    before             text,
    after              text,
    created_ms         bigint   NOT NULL
);

CREATE TABLE operator_events (
    event_id           text     NOT NULL PRIMARY KEY,  -- a ULID
    kind               text     NOT NULL,
    seller_id          bigint,
    subject            text     NOT NULL,
    message            text     NOT NULL,
    body               text     NOT NULL,
    created_ms         bigint   NOT NULL
);

CREATE TABLE clock_settings (
    name               text     NOT NULL PRIMARY KEY CHECK (name = 'clock'),
    offset_ms          bigint   NOT NULL,
    frozen_ms          bigint
);

-- Tokens ------------------------------------------------------------------------------------------------------------

CREATE TABLE authorizations (
    seller_id          bigint   NOT NULL,
    authorization_id   text     NOT NULL,  -- a ULID
    application_id     bigint   NOT NULL,
    scope              text     NOT NULL,
    created_ms         bigint   NOT NULL,
    withdrawn_ms       bigint,
    PRIMARY KEY (seller_id, authorization_id)
);

CREATE INDEX authorizations_application ON authorizations (seller_id, application_id);

CREATE TABLE codes (
    seller_id          bigint   NOT NULL,
    digest             bytea    NOT NULL,
    authorization_id   text     NOT NULL,
    application_id     bigint   NOT NULL,
    redirect_uri       text     NOT NULL,
    scope              text     NOT NULL,
    challenge          text,               -- S256
    created_ms         bigint   NOT NULL,
    expires_ms         bigint   NOT NULL,
    expired_ms         bigint,             -- the first refusal as expired writes it down: expired for ever
    exchanged_ms       bigint,
    family_id           bytea,              -- what came of it
    PRIMARY KEY (seller_id, digest)
);

CREATE TABLE token_families (
    seller_id          bigint   NOT NULL,
    family_id           bytea    NOT NULL,  -- 128 random bits
    authorization_id   text     NOT NULL,
    application_id     bigint   NOT NULL,
    live               smallint NOT NULL,
    scope              text     NOT NULL,
    generation         bigint   NOT NULL,  -- the newest one; one successor and no more is the UPDATE that raises it
    created_ms         bigint   NOT NULL,
    expired_ms         bigint,             -- the newest refresh token was refused as expired: no successor, ever
    revoked_ms         bigint,
    revoked_reason     text,
    PRIMARY KEY (seller_id, family_id)
);

CREATE TABLE refresh_tokens (
    seller_id          bigint   NOT NULL,
    digest             bytea    NOT NULL,
    family_id           bytea    NOT NULL,
    generation         bigint   NOT NULL,
    key_version        bigint   NOT NULL,
    created_ms         bigint   NOT NULL,
    expires_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, digest)
);

CREATE UNIQUE INDEX refresh_tokens_generation ON refresh_tokens (seller_id, family_id, generation);

CREATE TABLE access_tokens (
    seller_id          bigint   NOT NULL,
    digest             bytea    NOT NULL,
    family_id           bytea    NOT NULL,
    generation         bigint   NOT NULL,
    key_version        bigint   NOT NULL,
    scope              text     NOT NULL,
    created_ms         bigint   NOT NULL,
    expires_ms         bigint   NOT NULL,
    expired_ms         bigint,
    revoked_ms         bigint,
    PRIMARY KEY (seller_id, digest)
);

CREATE UNIQUE INDEX access_tokens_generation ON access_tokens (seller_id, family_id, generation);

-- Terminals ---------------------------------------------------------------------------------------------------------

CREATE TABLE terminals (
    seller_id          bigint   NOT NULL,
    terminal_id        text     NOT NULL,  -- <MODEL>__<SERIAL>
    live               smallint NOT NULL,
    store_id           bigint   NOT NULL,
    pos_id             bigint   NOT NULL,
    kind               text     NOT NULL CHECK (kind IN ('terminal', 'service')),
    is_virtual         smallint NOT NULL,
    operating_mode     text     NOT NULL CHECK (operating_mode IN ('PDV', 'STANDALONE', 'SELF_SERVICE', 'UNDEFINED')),
    script             text,               -- of a virtual one
    session            bigint   NOT NULL,  -- the number of the newest terminal_sessions row, 0 before the first hello
    last_seen_ms       bigint,
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, terminal_id)
);

CREATE INDEX terminals_pos ON terminals (seller_id, pos_id);

CREATE TABLE device_tokens (
    seller_id          bigint   NOT NULL,
    digest             bytea    NOT NULL,
    terminal_id        text     NOT NULL,
    created_ms         bigint   NOT NULL,
    revoked_ms         bigint,
    PRIMARY KEY (seller_id, digest)
);

CREATE TABLE terminal_sessions (
    seller_id          bigint   NOT NULL,
    terminal_id        text     NOT NULL,
    boot_id            text     NOT NULL,
    session            bigint   NOT NULL,
    app_version        text     NOT NULL,
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, terminal_id, boot_id)
);

-- Orders ------------------------------------------------------------------------------------------------------------

-- One row is the order with its one payment; PAY… and the lease id are the order's own ULID.
CREATE TABLE orders (
    seller_id              bigint   NOT NULL,
    order_id               text     NOT NULL,
    application_id         bigint   NOT NULL,
    live                   smallint NOT NULL,
    terminal_id            text     NOT NULL,
    status                 text     NOT NULL,
    status_detail          text     NOT NULL,
    payment_status_detail  text     NOT NULL,  -- a payment's status is its order's
    version                bigint   NOT NULL,
    currency               text     NOT NULL,
    country                text     NOT NULL,
    amount                 text     NOT NULL,  -- as it was sent
    amount_minor           bigint   NOT NULL,
    external_reference     text,
    description            text,
    expiration_time        text     NOT NULL,
    config                 text     NOT NULL,  -- JSON, as it is echoed
    integration_data       text     NOT NULL,  -- JSON, as it is echoed
    created_ms             bigint   NOT NULL,
    updated_ms             bigint   NOT NULL,
    expires_ms             bigint   NOT NULL,
    permitted_ms             bigint,             -- the point of no return: cancel and expiry stop here
    cancel_requested_ms    bigint,
    paid_ms                bigint,
    paid_minor             bigint,
    tip_minor              bigint,
    refunded_minor         bigint   NOT NULL,
    reference_id           text,
    authorization_code     text,
    payment_method         text,               -- JSON, as it is shown
    card                   text,               -- JSON, as it is shown
    origin                 text,
    PRIMARY KEY (seller_id, order_id),
    -- The states of the table of moves (a test compares the two).
    CONSTRAINT orders_state CHECK (status || '/' || status_detail || '/' || payment_status_detail IN (
        'created/created/created',
        'at_terminal/at_terminal/at_terminal',
        'at_terminal/at_terminal/cancellation_requested',
        'at_terminal/check_on_terminal/check_on_terminal',
        'processed/processed/accredited',
        'processed/partially_refunded/partially_refunded',
        'refunded/refunded/refunded',
        'canceled/canceled/canceled_by_api',
        'canceled/canceled/canceled_on_terminal',
        'canceled/expired/expired',
        'failed/failed/rejected_by_issuer',
        'failed/failed/insufficient_amount',
        'failed/failed/bad_filled_card_data',
        'failed/failed/required_call_for_authorize',
        'failed/failed/card_disabled',
        'failed/failed/high_risk',
        'failed/failed/max_attempts_exceeded',
        'failed/failed/amount_limit_exceeded',
        'failed/failed/invalid_installments',
        'failed/failed/processing_error',
        'failed/failed/rejected_other_reason'
    ))
);

CREATE UNIQUE INDEX orders_live_on_terminal ON orders (seller_id, terminal_id)
    WHERE status IN ('created', 'at_terminal');
CREATE INDEX orders_expiring ON orders (expires_ms, seller_id)
    WHERE status IN ('created', 'at_terminal') AND permitted_ms IS NULL;
CREATE INDEX orders_permitted ON orders (permitted_ms, seller_id) WHERE status = 'at_terminal' AND permitted_ms IS NOT NULL;
CREATE INDEX orders_cancellation_requested ON orders (cancel_requested_ms, seller_id)
    WHERE payment_status_detail = 'cancellation_requested';
CREATE INDEX orders_by_date ON orders (seller_id, live, created_ms);

-- One row a move: the history, the audit trail and what the notifications say.
CREATE TABLE order_events (
    seller_id              bigint   NOT NULL,
    order_id               text     NOT NULL,
    version                bigint   NOT NULL,
    event_id               text     NOT NULL,  -- a UUID: the notification's id
    action                 text     NOT NULL,
    move                   text     NOT NULL,  -- the name of the move in the table of moves
    status                 text     NOT NULL,
    status_detail          text     NOT NULL,
    payment_status_detail  text     NOT NULL,
    body                   text     NOT NULL,  -- the notification, byte for byte
    created_ms             bigint   NOT NULL,
    PRIMARY KEY (seller_id, order_id, version)
);

-- The lease of an order on its terminal, from the acknowledgement on; its id is the order's ULID.
CREATE TABLE leases (
    seller_id          bigint   NOT NULL,
    lease_id           text     NOT NULL,
    order_id           text     NOT NULL,
    terminal_id        text     NOT NULL,
    session            bigint   NOT NULL,
    acknowledged_ms    bigint   NOT NULL,
    seq                bigint   NOT NULL,
    step               text     NOT NULL,
    ended_ms           bigint,
    ended_by           text,               -- result, expiry, cancel, detached
    PRIMARY KEY (seller_id, lease_id)
);

CREATE INDEX leases_terminal ON leases (seller_id, terminal_id, acknowledged_ms);

-- What terminals reported, all of it: no approval is ever lost.
CREATE TABLE results (
    seller_id          bigint   NOT NULL,
    lease_id           text     NOT NULL,
    result_id          text     NOT NULL,
    digest             bytea    NOT NULL,  -- of the content without boot_id
    outcome            text     NOT NULL,
    verdict            text     NOT NULL,  -- taken, conflict, finished, late_approval, unreadable
    body               text     NOT NULL,
    answer_status      bigint   NOT NULL,
    answer             text     NOT NULL,
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, lease_id, result_id)
);

-- An order whose outcome nobody knows: the acquirer is to be asked.
CREATE TABLE inquiries (
    seller_id          bigint   NOT NULL,
    order_id           text     NOT NULL,
    live               smallint NOT NULL,
    reason             text     NOT NULL,
    attempts           bigint   NOT NULL,
    next_ms            bigint   NOT NULL,
    created_ms         bigint   NOT NULL,
    ended_ms           bigint,
    outcome            text,
    PRIMARY KEY (seller_id, order_id)
);

CREATE INDEX inquiries_due ON inquiries (next_ms, seller_id) WHERE ended_ms IS NULL;

-- An approval that is not the order's own one payment: to be confirmed and given back.
CREATE TABLE reversals (
    seller_id          bigint   NOT NULL,
    reversal_id        text     NOT NULL,  -- a ULID
    order_id           text     NOT NULL,
    lease_id           text     NOT NULL,
    result_id          text     NOT NULL,
    live               smallint NOT NULL,
    amount_minor       bigint   NOT NULL,
    reference_id       text     NOT NULL,
    status             text     NOT NULL CHECK (status IN ('pending', 'reversed', 'not_found')),
    attempts           bigint   NOT NULL,
    next_ms            bigint   NOT NULL,
    created_ms         bigint   NOT NULL,
    ended_ms           bigint,
    PRIMARY KEY (seller_id, reversal_id)
);

CREATE UNIQUE INDEX reversals_result ON reversals (seller_id, lease_id, result_id);
CREATE INDEX reversals_due ON reversals (next_ms, seller_id) WHERE status = 'pending';

CREATE TABLE refunds (
    seller_id          bigint   NOT NULL,
    refund_id          text     NOT NULL,
    order_id           text     NOT NULL,
    amount             text     NOT NULL,
    amount_minor       bigint   NOT NULL,
    status             text     NOT NULL CHECK (status IN ('processing', 'processed', 'failed')),
    reference_id       text,
    created_ms         bigint   NOT NULL,
    ended_ms           bigint,
    PRIMARY KEY (seller_id, refund_id)
);

CREATE INDEX refunds_order ON refunds (seller_id, order_id);

-- Idempotency: the key, the effect and the stored answer are committed together or not at all.
CREATE TABLE idempotency_keys (
    seller_id          bigint   NOT NULL,
    application_id     bigint   NOT NULL,
    live               smallint NOT NULL,
    operation          text     NOT NULL,
    object_id          text     NOT NULL,  -- the canonical order id, empty for create
    idempotency_key    text     NOT NULL,
    digest             bytea    NOT NULL,  -- of the request
    status             bigint,
    answer             bytea,
    replays            bigint   NOT NULL,
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, application_id, live, operation, object_id, idempotency_key)
);

-- Webhooks ----------------------------------------------------------------------------------------------------------

-- The outbox: one row per event and matching subscription, written with the event.
CREATE TABLE deliveries (
    seller_id          bigint   NOT NULL,
    delivery_id        text     NOT NULL,  -- <event_id>.<subscription_id>; X-Request-Id is derived from it
    subscription_id    text     NOT NULL,
    order_id           text     NOT NULL,
    version            bigint   NOT NULL,
    status             text     NOT NULL CHECK (status IN ('pending', 'delivered', 'exhausted', 'superseded', 'withdrawn')),
    attempts           bigint   NOT NULL,
    next_ms            bigint   NOT NULL,
    claimed_until_ms   bigint   NOT NULL,
    created_ms         bigint   NOT NULL,
    ended_ms           bigint,
    PRIMARY KEY (seller_id, delivery_id)
);

CREATE UNIQUE INDEX deliveries_event ON deliveries (seller_id, order_id, version, subscription_id);
CREATE INDEX deliveries_due ON deliveries (next_ms, subscription_id) WHERE status = 'pending';
CREATE INDEX deliveries_open ON deliveries (subscription_id, seller_id, next_ms) WHERE status = 'pending';

CREATE TABLE attempts (
    seller_id          bigint   NOT NULL,
    delivery_id        text     NOT NULL,
    attempt            bigint   NOT NULL,
    started_ms         bigint   NOT NULL,
    duration_ms        bigint   NOT NULL,
    answer_status      bigint,             -- none when there was no answer
    answer_body        text     NOT NULL,  -- its first 4 KiB
    error              text,
    PRIMARY KEY (seller_id, delivery_id, attempt)
);

-- Development only: what the demo receiver got --------------------------------------------------------------------

CREATE TABLE demo_inbox (
    entry_number       bigint   NOT NULL PRIMARY KEY,  -- in the order of arrival
    received_ms        bigint   NOT NULL,
    signature_valid    smallint NOT NULL,
    headers            text     NOT NULL,
    body               text     NOT NULL
);
