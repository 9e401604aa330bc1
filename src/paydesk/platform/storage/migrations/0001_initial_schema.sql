-- All tables. Times are milliseconds since 1970 in UTC (`…_ms`), amounts are in minor units (`…_minor`), booleans are 1
-- and 0.
-- `seller_id` is the first column of every key that a request uses: one request, one seller, one local transaction.
-- Partial indexes cover pending rows, so that finding them costs nothing as the history grows.

-- Shared by all sellers: small tables ------------------------------------------------------------------------------

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
    expired_ms         bigint,             -- set by the first request that was refused because it had expired
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
    actions            text     NOT NULL,  -- a JSON array; empty: all actions
    secret_generation  bigint   NOT NULL,  -- the secret is derived from it and the server key
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
    repeat_key         text,               -- kind, subject and hour; NULL for events that are not aggregated
    occurrences        bigint   NOT NULL DEFAULT 1,
    created_ms         bigint   NOT NULL
);

CREATE UNIQUE INDEX operator_events_repeats ON operator_events (repeat_key) WHERE repeat_key IS NOT NULL;

-- Set by the first command that opens the database, and never changed.
CREATE TABLE database_mark (
    name               text     NOT NULL PRIMARY KEY CHECK (name = 'kind'),
    kind               text     NOT NULL CHECK (kind IN ('development', 'production')),
    marked_ms          bigint   NOT NULL
);

-- The clock of `paydesk dev`.
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
    expired_ms         bigint,             -- set by the first refusal as expired: it stays expired if clocks go back
    exchanged_ms       bigint,
    family_id          bytea,              -- the token family it was exchanged for
    PRIMARY KEY (seller_id, digest)
);

CREATE INDEX codes_age ON codes (seller_id, expires_ms);

CREATE TABLE token_families (
    seller_id          bigint   NOT NULL,
    family_id          bytea    NOT NULL,  -- 128 random bits
    authorization_id   text     NOT NULL,
    application_id     bigint   NOT NULL,
    live               smallint NOT NULL,
    scope              text     NOT NULL,
    generation         bigint   NOT NULL,  -- of the newest tokens; the UPDATE that increments it admits one successor
    created_ms         bigint   NOT NULL,
    expired_ms         bigint,             -- the newest refresh token was refused as expired: the family ends
    revoked_ms         bigint,
    revoked_reason     text,
    PRIMARY KEY (seller_id, family_id)
);

CREATE TABLE refresh_tokens (
    seller_id          bigint   NOT NULL,
    digest             bytea    NOT NULL,
    family_id          bytea    NOT NULL,
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
    family_id          bytea    NOT NULL,
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

-- Sign-in and consent -----------------------------------------------------------------------------------------------

CREATE TABLE seller_sessions (
    seller_id          bigint   NOT NULL,
    digest             bytea    NOT NULL,  -- of the cookie
    created_ms         bigint   NOT NULL,
    used_ms            bigint,             -- last use, to the minute; NULL: not since it was created
    expires_ms         bigint   NOT NULL,
    expired_ms         bigint,             -- set by the first request that was refused because it had expired
    ended_ms           bigint,             -- signed out, password changed, seller suspended
    PRIMARY KEY (seller_id, digest)
);

CREATE INDEX seller_sessions_age ON seller_sessions (seller_id, expires_ms);

-- A consent page that was shown to a seller. It is decided once, by the session that saw it, before it expires.
CREATE TABLE consent_requests (
    seller_id          bigint   NOT NULL,
    digest             bytea    NOT NULL,  -- of the value in the form
    session_digest     bytea    NOT NULL,
    application_id     bigint   NOT NULL,
    redirect_uri       text     NOT NULL,
    scope              text     NOT NULL,
    challenge          text,               -- S256
    state              text,
    created_ms         bigint   NOT NULL,
    expires_ms         bigint   NOT NULL,
    decided_ms         bigint,
    PRIMARY KEY (seller_id, digest)
);

CREATE INDEX consent_requests_age ON consent_requests (seller_id, expires_ms);

-- What happened between a seller and an application: the source of webhooks of topic mp-connect.
CREATE TABLE application_events (
    seller_id          bigint   NOT NULL,
    application_id     bigint   NOT NULL,
    version            bigint   NOT NULL,  -- from 1, for each seller and application
    action             text     NOT NULL CHECK (action IN ('application.authorized', 'application.deauthorized')),
    body               text     NOT NULL,  -- the notification, byte for byte
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, application_id, version)
);

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
    script             text,               -- of a virtual terminal
    session            bigint   NOT NULL,  -- number of the newest terminal_sessions row; 0 before the first hello
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

CREATE INDEX device_tokens_revoked ON device_tokens (seller_id, revoked_ms) WHERE revoked_ms IS NOT NULL;
CREATE INDEX device_tokens_terminal ON device_tokens (seller_id, terminal_id);

CREATE TABLE terminal_sessions (
    seller_id          bigint   NOT NULL,
    terminal_id        text     NOT NULL,
    boot_id            text     NOT NULL,
    session            bigint   NOT NULL,
    app_version        text     NOT NULL,
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, terminal_id, boot_id)
);

CREATE INDEX terminal_sessions_age ON terminal_sessions (seller_id, created_ms);

-- Orders ------------------------------------------------------------------------------------------------------------

-- An order and its one payment. The payment id (PAY…) and the lease id contain the order's ULID.
CREATE TABLE orders (
    seller_id              bigint   NOT NULL,
    order_id               text     NOT NULL,
    application_id         bigint   NOT NULL,
    live                   smallint NOT NULL,
    terminal_id            text     NOT NULL,
    status                 text     NOT NULL,
    status_detail          text     NOT NULL,
    payment_status_detail  text     NOT NULL,  -- the payment's status is the order's status
    version                bigint   NOT NULL,
    currency               text     NOT NULL,
    country                text     NOT NULL,
    amount                 text     NOT NULL,  -- as the client sent it
    amount_minor           bigint   NOT NULL,
    external_reference     text,
    description            text,
    expiration_time        text     NOT NULL,
    config                 text     NOT NULL,  -- JSON, as responses have it
    integration_data       text     NOT NULL,  -- JSON, as responses have it
    created_ms             bigint   NOT NULL,
    updated_ms             bigint   NOT NULL,
    expires_ms             bigint   NOT NULL,
    permitted_ms           bigint,             -- the terminal may charge: no cancel and no expiry from here on
    cancel_requested_ms    bigint,
    detached_ms            bigint,             -- taken off its terminal, to get a simulated status: test orders only
    paid_ms                bigint,
    paid_minor             bigint,
    tip_minor              bigint,
    refunded_minor         bigint   NOT NULL,
    refunding_minor        bigint   NOT NULL DEFAULT 0,  -- reserved by refunds in progress
    reference_id           text,
    authorization_code     text,
    payment_method         text,               -- JSON, as responses have it
    card                   text,               -- JSON, as responses have it
    refunds                text,               -- JSON array (orders/order.py: OrderRefund); NULL: none
    origin                 text,
    PRIMARY KEY (seller_id, order_id),
    -- The states of the transition table (a test compares them). A new order's state comes first and by itself: SQLite
    -- builds a table of the list for every row that reaches it, which took a quarter of the time of an INSERT.
    CONSTRAINT orders_state CHECK (
        status || '/' || status_detail || '/' || payment_status_detail = 'created/created/created'
        OR status || '/' || status_detail || '/' || payment_status_detail IN (
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
        )
    )
);

CREATE UNIQUE INDEX orders_live_on_terminal ON orders (seller_id, terminal_id)
    WHERE status IN ('created', 'at_terminal');
CREATE INDEX orders_expiring ON orders (expires_ms, seller_id)
    WHERE status IN ('created', 'at_terminal') AND permitted_ms IS NULL;
CREATE INDEX orders_permitted ON orders (permitted_ms, seller_id)
    WHERE status = 'at_terminal' AND permitted_ms IS NOT NULL;
CREATE INDEX orders_cancellation_requested ON orders (cancel_requested_ms, seller_id)
    WHERE payment_status_detail = 'cancellation_requested';
-- A search filters, sorts and counts in this index without reading an order.
CREATE INDEX orders_searched
    ON orders (seller_id, live, created_ms, order_id, status, status_detail, terminal_id, payment_method);
-- A search by reference.
CREATE INDEX orders_by_reference ON orders (seller_id, external_reference, live, created_ms, order_id)
    WHERE external_reference IS NOT NULL;

-- The order that an acquirer's payment reference belongs to: one order for each reference of a seller.
CREATE TABLE payment_references (
    seller_id          bigint   NOT NULL,
    live               smallint NOT NULL,  -- which acquirer
    reference_id       text     NOT NULL,
    order_id           text     NOT NULL,
    PRIMARY KEY (seller_id, live, reference_id)
);

-- One row for each transition of an order: its history, and the bodies of its notifications. `number` is the event's
-- position in the feed of its application, given after the commit.
CREATE TABLE order_events (
    seller_id              bigint   NOT NULL,
    order_id               text     NOT NULL,
    version                bigint   NOT NULL,
    application_id         bigint   NOT NULL,  -- the order's
    live                   smallint NOT NULL,  -- the order's
    number                 bigint,             -- from 1, without gaps within (seller_id, application_id, live)
    event_id               text     NOT NULL,  -- a UUID: the id of the notification
    action                 text     NOT NULL,
    move                   text     NOT NULL,  -- the name of the transition
    status                 text     NOT NULL,
    status_detail          text     NOT NULL,
    payment_status_detail  text     NOT NULL,
    body                   text     NOT NULL,  -- the notification, byte for byte
    created_ms             bigint   NOT NULL,
    PRIMARY KEY (seller_id, order_id, version)
);

CREATE INDEX order_events_unnumbered ON order_events (seller_id, application_id, live, order_id, version)
    WHERE number IS NULL;
CREATE UNIQUE INDEX order_events_numbered ON order_events (seller_id, application_id, live, number)
    WHERE number IS NOT NULL;

-- One row for each feed. A node locks it while it numbers events.
CREATE TABLE event_counters (
    seller_id          bigint   NOT NULL,
    application_id     bigint   NOT NULL,
    live               smallint NOT NULL,
    last_number        bigint   NOT NULL,  -- the newest one given
    first_number       bigint   NOT NULL,  -- the oldest one that can still be read
    PRIMARY KEY (seller_id, application_id, live)
);

-- A terminal's lease of an order, from its acknowledgement on. Its id contains the order's ULID.
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
    ended_by           text,               -- result, expiry, cancel, detached, inquiry, operator
    PRIMARY KEY (seller_id, lease_id)
);

CREATE INDEX leases_terminal ON leases (seller_id, terminal_id, acknowledged_ms);

-- Every result that a terminal reported, also those that were refused: an approval is never lost.
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

-- Orders with an unknown outcome, to be resolved by an inquiry at the acquirer.
CREATE TABLE inquiries (
    seller_id          bigint   NOT NULL,
    order_id           text     NOT NULL,
    live               smallint NOT NULL,
    reason             text     NOT NULL,
    attempts           bigint   NOT NULL,
    next_ms            bigint   NOT NULL,
    claimed_until_ms   bigint   NOT NULL DEFAULT 0,
    created_ms         bigint   NOT NULL,
    reversing_ms       bigint,             -- from then on it is reversed at the acquirer and never approved
    alerted_ms         bigint,             -- operators were alerted
    ended_ms           bigint,
    outcome            text,
    PRIMARY KEY (seller_id, order_id)
);

CREATE INDEX inquiries_due ON inquiries (next_ms, seller_id) WHERE ended_ms IS NULL;

-- Approvals that are not the order's one payment, to be confirmed by an inquiry and reversed.
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
    confirmed          text CHECK (confirmed IN ('approved', 'not_found')),  -- the inquiry's result
    attempts           bigint   NOT NULL,
    next_ms            bigint   NOT NULL,
    claimed_until_ms   bigint   NOT NULL DEFAULT 0,
    created_ms         bigint   NOT NULL,
    alerted_ms         bigint,             -- operators were alerted
    ended_ms           bigint,
    PRIMARY KEY (seller_id, reversal_id)
);

CREATE UNIQUE INDEX reversals_result ON reversals (seller_id, lease_id, result_id);
CREATE INDEX reversals_due ON reversals (next_ms, seller_id) WHERE status = 'pending';

CREATE TABLE refunds (
    seller_id          bigint   NOT NULL,
    refund_id          text     NOT NULL,
    order_id           text     NOT NULL,
    application_id     bigint   NOT NULL,
    live               smallint NOT NULL,
    idempotency_key    text     NOT NULL,  -- of the request that created it
    amount             text     NOT NULL,
    amount_minor       bigint   NOT NULL,
    status             text     NOT NULL CHECK (status IN ('processing', 'processed', 'failed')),
    reference_id       text,
    attempts           bigint   NOT NULL,
    unsent             bigint   NOT NULL,  -- attempts that certainly did not reach the acquirer
    next_ms            bigint   NOT NULL,
    claimed_until_ms   bigint   NOT NULL,
    created_ms         bigint   NOT NULL,
    alerted_ms         bigint,             -- operators were alerted
    ended_ms           bigint,
    PRIMARY KEY (seller_id, refund_id)
);

CREATE INDEX refunds_order ON refunds (seller_id, order_id);
CREATE INDEX refunds_due ON refunds (next_ms, seller_id) WHERE status = 'processing';
CREATE INDEX refunds_open ON refunds (seller_id, next_ms) WHERE status = 'processing';

-- Idempotency keys: the key, the effect and the stored response are committed together.
CREATE TABLE idempotency_keys (
    seller_id          bigint   NOT NULL,
    application_id     bigint   NOT NULL,
    live               smallint NOT NULL,
    operation          text     NOT NULL,
    object_id          text     NOT NULL,  -- the order id; empty for create
    idempotency_key    text     NOT NULL,
    digest             bytea    NOT NULL,  -- of the request
    status             bigint,
    answer             bytea,
    replays            bigint   NOT NULL,
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, application_id, live, operation, object_id, idempotency_key)
);

CREATE INDEX idempotency_keys_age ON idempotency_keys (seller_id, operation, created_ms);

-- Webhooks ----------------------------------------------------------------------------------------------------------

-- The outbox: one row for each event and matching subscription, written in the event's transaction.
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
CREATE INDEX deliveries_ended ON deliveries (seller_id, ended_ms) WHERE ended_ms IS NOT NULL;

CREATE TABLE attempts (
    seller_id          bigint   NOT NULL,
    delivery_id        text     NOT NULL,
    attempt            bigint   NOT NULL,
    started_ms         bigint   NOT NULL,
    duration_ms        bigint   NOT NULL,
    answer_status      bigint,             -- NULL: no response
    answer_body        text     NOT NULL,  -- its first 4 KiB
    error              text,
    PRIMARY KEY (seller_id, delivery_id, attempt)
);

-- The simulated acquirer's ledger -----------------------------------------------------------------------------------
-- No transaction of an order writes to it: the invariants compare the two.

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
    visible_ms         bigint   NOT NULL,  -- inquiries do not find it before
    refunded_minor     bigint   NOT NULL DEFAULT 0,
    reversed_ms        bigint,             -- also of a payment that was never authorized: it is refused from then on
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

-- How often a request was made, where the simulated response depends on it.
CREATE TABLE simulator_requests (
    seller_id          bigint   NOT NULL,
    operation          text     NOT NULL CHECK (operation IN ('payment', 'inquiry', 'refund', 'reversal')),
    request_key        text     NOT NULL,
    ordinal            bigint   NOT NULL,  -- from 1, for each seller and operation
    requests           bigint   NOT NULL,
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, operation, request_key)
);

CREATE INDEX simulator_requests_ordinal ON simulator_requests (seller_id, operation, ordinal);

-- Development only: what the demo webhook receiver received --------------------------------------------------------

CREATE TABLE demo_inbox (
    entry_number       bigint   NOT NULL PRIMARY KEY,  -- in order of arrival
    received_ms        bigint   NOT NULL,
    signature_valid    smallint NOT NULL,
    headers            text     NOT NULL,
    body               text     NOT NULL
);
