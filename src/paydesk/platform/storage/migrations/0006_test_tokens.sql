-- Test tokens for clients that cannot send `test_token`. Nodes of the previous version write neither column, and ignore
-- both: their exchanges without `test_token` return live tokens.

-- Whether an exchange without `test_token` returns test tokens.
ALTER TABLE applications ADD COLUMN test_tokens smallint NOT NULL DEFAULT 0;

-- Whether the code can only be exchanged for test tokens (1) or for live tokens (0); NULL: the exchange chooses.
ALTER TABLE codes ADD COLUMN test_token smallint;
