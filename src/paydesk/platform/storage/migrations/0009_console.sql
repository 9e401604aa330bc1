-- The console: operators who sign in with a password, their sessions, the requests of clients, the steps of payments.
-- Nodes of the previous version write none of the new tables and columns, and refuse nothing that this version accepts.

-- An operator is a person, who signs in with an e-mail address and a password, or a program, which has a token.
CREATE TABLE operators_new (
    operator_id        text     NOT NULL PRIMARY KEY,
    name               text     NOT NULL,
    role               text     NOT NULL CHECK (role IN ('owner', 'operator', 'support', 'viewer')),
    digest             bytea    UNIQUE,    -- of the token; NULL: no token
    email              text     UNIQUE,    -- in lower case; NULL: cannot sign in
    password           text,               -- Argon2id; NULL: not set yet
    created_ms         bigint   NOT NULL,
    revoked_ms         bigint
);

INSERT INTO operators_new (operator_id, name, role, digest, created_ms, revoked_ms)
SELECT operator_id, name, role, digest, created_ms, revoked_ms FROM operators;

DROP TABLE operators;
ALTER TABLE operators_new RENAME TO operators;

-- A link with which an operator sets a password, once.
CREATE TABLE operator_links (
    digest             bytea    NOT NULL PRIMARY KEY,
    operator_id        text     NOT NULL,
    created_ms         bigint   NOT NULL,
    expires_ms         bigint   NOT NULL,
    used_ms            bigint              -- also set when a newer link replaces it
);

CREATE INDEX operator_links_operator ON operator_links (operator_id);

CREATE TABLE operator_sessions (
    session_id         text     NOT NULL PRIMARY KEY,  -- a ULID; not secret
    digest             bytea    NOT NULL UNIQUE,       -- of the token in the cookie
    operator_id        text     NOT NULL,
    address            text     NOT NULL,  -- where it began
    user_agent         text     NOT NULL,
    created_ms         bigint   NOT NULL,
    used_ms            bigint   NOT NULL,  -- last use, to the minute
    expires_ms         bigint   NOT NULL,
    ended_ms           bigint              -- signed out, ended by an operator, expired, password changed, revoked
);

CREATE INDEX operator_sessions_operator ON operator_sessions (operator_id, session_id);
CREATE INDEX operator_sessions_age ON operator_sessions (expires_ms);

-- The last requests of applications and terminals. Written beside the requests, not in their transactions: under load
-- some are missing.
CREATE TABLE recorded_requests (
    entry_id           text     NOT NULL PRIMARY KEY,  -- a ULID of the time of the request
    request_id         text     NOT NULL,  -- X-Request-Id; clients may repeat it
    method             text     NOT NULL,
    path               text     NOT NULL,  -- with its query; secrets are masked
    operation          text     NOT NULL,
    status             bigint   NOT NULL,
    duration_us        bigint   NOT NULL,
    application_id     bigint,
    seller_id          bigint,
    live               smallint,
    terminal_id        text,
    order_id           text,
    idempotency_key    text,
    replayed           smallint NOT NULL,  -- the stored response of an earlier request was sent
    error              text,               -- the code of the refusal
    reason             text,               -- why, as in the log
    address            text     NOT NULL,
    user_agent         text     NOT NULL,
    request_body       text,               -- development only; secrets are masked
    response_body      text,               -- development only; secrets are masked
    created_ms         bigint   NOT NULL
);

CREATE INDEX recorded_requests_id ON recorded_requests (request_id);
CREATE INDEX recorded_requests_order ON recorded_requests (order_id, entry_id) WHERE order_id IS NOT NULL;

-- The steps of a payment that its terminal reported; `leases` has only the newest.
CREATE TABLE lease_steps (
    seller_id          bigint   NOT NULL,
    lease_id           text     NOT NULL,
    seq                bigint   NOT NULL,
    step               text     NOT NULL,
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, lease_id, seq)
);

-- What operators did to an order; what one of them did.
CREATE INDEX operator_audit_subject ON operator_audit (subject, entry_id);
CREATE INDEX operator_audit_operator ON operator_audit (operator_id, entry_id);

-- The notifications of a subscription that could not be delivered in the last days.
CREATE INDEX deliveries_exhausted ON deliveries (subscription_id, ended_ms) WHERE status = 'exhausted';

-- The deliveries of a seller that failed: exhausted ones, and those that wait for a retry or behind one that does. An
-- attempt changes no column of the condition, so one that succeeds costs nothing.
CREATE INDEX deliveries_failed ON deliveries (seller_id, created_ms)
    WHERE (status = 'exhausted' OR (status = 'pending' AND next_ms > created_ms AND next_ms < 253402300799000));

-- What operators search orders by. The digits are those of the card that paid, or tried to; orders that ended before
-- this version have none.
ALTER TABLE orders ADD COLUMN last_digits text;

CREATE INDEX orders_by_last_digits ON orders (seller_id, last_digits, order_id) WHERE last_digits IS NOT NULL;
CREATE INDEX orders_by_payer_email ON orders (seller_id, LOWER(payer_email), order_id) WHERE payer_email IS NOT NULL;
-- Orders in a rare state are found without reading the others; those that are open have `orders_live_on_terminal`.
-- Without IN, for which SQLite builds a table of the list at every INSERT of an order.
CREATE INDEX orders_by_status ON orders (seller_id, status, order_id)
    WHERE (status = 'canceled' OR status = 'failed' OR status = 'refunded' OR status_detail = 'partially_refunded');

-- The authorizations of an application, by status.
CREATE INDEX authorizations_valid ON authorizations (application_id, seller_id, authorization_id)
    WHERE withdrawn_ms IS NULL;
CREATE INDEX authorizations_withdrawn ON authorizations (application_id, seller_id, authorization_id)
    WHERE withdrawn_ms IS NOT NULL;
