-- When a seller's session was last used, to the minute: one that is idle for too long ends. NULL: not since it began.

ALTER TABLE seller_sessions ADD COLUMN used_ms bigint;
