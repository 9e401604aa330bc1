-- Events for operators that may repeat: an hour's repetitions of one kind about one subject are counted in one row.
ALTER TABLE operator_events ADD COLUMN repeat_key text;  -- kind, subject and hour; NULL where each happening has a row
ALTER TABLE operator_events ADD COLUMN occurrences bigint NOT NULL DEFAULT 1;

CREATE UNIQUE INDEX operator_events_repeats ON operator_events (repeat_key) WHERE repeat_key IS NOT NULL;
