-- Print actions: texts and images that applications print on terminals.

-- The open print action of a terminal. It is a column of the row that creating an order locks, so that an order and a
-- print action exclude each other without a further statement.
ALTER TABLE terminals ADD COLUMN action_id text;

CREATE TABLE print_actions (
    seller_id          bigint   NOT NULL,
    action_id          text     NOT NULL,  -- a UUID
    application_id     bigint   NOT NULL,
    live               smallint NOT NULL,
    terminal_id        text     NOT NULL,
    external_reference text     NOT NULL,
    subtype            text     NOT NULL CHECK (subtype IN ('custom', 'image')),
    status             text     NOT NULL CHECK (status IN ('created', 'on_terminal', 'processed', 'failed', 'canceled')),
    created_ms         bigint   NOT NULL,
    updated_ms         bigint   NOT NULL,
    expires_ms         bigint   NOT NULL,
    content            text,               -- as it was sent; NULL from the end of the action on
    PRIMARY KEY (seller_id, action_id),
    CONSTRAINT print_actions_content CHECK ((content IS NULL) = (status IN ('processed', 'failed', 'canceled')))
);

CREATE UNIQUE INDEX print_actions_open ON print_actions (seller_id, terminal_id)
    WHERE (status = 'created' OR status = 'on_terminal');
CREATE INDEX print_actions_expiring ON print_actions (expires_ms, seller_id)
    WHERE (status = 'created' OR status = 'on_terminal');
CREATE INDEX print_actions_age ON print_actions (seller_id, updated_ms);
