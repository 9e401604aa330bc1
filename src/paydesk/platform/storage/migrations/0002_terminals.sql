-- Terminals: pairing, tips, the times of an order at its terminal, and authorizations that the service requests.

ALTER TABLE terminals ADD COLUMN tip_percentages text;  -- a JSON array of whole numbers; NULL: no tips are offered

ALTER TABLE device_tokens ADD COLUMN used_ms bigint;    -- first hello with the token: from then on pairing does not answer it

ALTER TABLE leases ADD COLUMN offered_ms bigint;        -- when the node that took the acknowledgement first offered the order

ALTER TABLE inquiries ADD COLUMN charged_minor bigint;  -- the amount that is reversed since reversing_ms

-- A terminal that asks to be paired (RFC 8628). It belongs to no seller before an operator has approved it. At most
-- `pairings_open_max` rows are open; every new one deletes expired rows.
CREATE TABLE pairings (
    device_digest      bytea    NOT NULL PRIMARY KEY,  -- of the device_code
    user_digest        bytea    NOT NULL UNIQUE,       -- of the user_code
    model              text     NOT NULL,
    serial             text     NOT NULL,
    address            text     NOT NULL,
    created_ms         bigint   NOT NULL,
    expires_ms         bigint   NOT NULL,
    denied_ms          bigint,
    approved_ms        bigint,
    seller_id          bigint,              -- set when it is approved; the device token is derived under this key
    key_version        bigint
);

CREATE INDEX pairings_age ON pairings (expires_ms);

-- The authorization that a terminal of kind `service` requested: one for each lease. Its encrypted data is not stored.
CREATE TABLE lease_authorizations (
    seller_id          bigint   NOT NULL,
    lease_id           text     NOT NULL,
    digest             bytea    NOT NULL,   -- keyed, of the request without boot_id
    key_version        bigint   NOT NULL,   -- of the digest's key
    tip_minor          bigint   NOT NULL,
    payment_method     text     NOT NULL,   -- JSON, as responses have it
    card               text     NOT NULL,   -- JSON, as responses have it
    created_ms         bigint   NOT NULL,
    repeated_ms        bigint,              -- when a further call to the acquirer was first requested
    PRIMARY KEY (seller_id, lease_id)
);
