-- A seller at the browser: signed in, asked to agree, and what applications are told of it.

CREATE TABLE seller_sessions (
    seller_id          bigint   NOT NULL,
    digest             bytea    NOT NULL,  -- of the cookie
    created_ms         bigint   NOT NULL,
    expires_ms         bigint   NOT NULL,
    expired_ms         bigint,             -- the first refusal as expired writes it down
    ended_ms           bigint,             -- signed out, another password, suspended
    PRIMARY KEY (seller_id, digest)
);

-- What a seller was asked, on which page: decided once, by the session that was asked, within its time.
CREATE TABLE consent_requests (
    seller_id          bigint   NOT NULL,
    digest             bytea    NOT NULL,  -- of what the form carries
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

-- What happened between a seller and an application, for the topic mp-connect: the outbox's other source.
CREATE TABLE application_events (
    seller_id          bigint   NOT NULL,
    application_id     bigint   NOT NULL,
    version            bigint   NOT NULL,  -- from 1, in order for each seller and application
    action             text     NOT NULL CHECK (action IN ('application.authorized', 'application.deauthorized')),
    body               text     NOT NULL,  -- the notification, byte for byte
    created_ms         bigint   NOT NULL,
    PRIMARY KEY (seller_id, application_id, version)
);

-- What has ended is pruned a seller at a time.
CREATE INDEX seller_sessions_age ON seller_sessions (seller_id, expires_ms);
CREATE INDEX consent_requests_age ON consent_requests (seller_id, expires_ms);
