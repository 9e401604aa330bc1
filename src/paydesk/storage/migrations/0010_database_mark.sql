-- What the database is for, said once: by the first command that opens it.
CREATE TABLE database_mark (
    name       text   NOT NULL PRIMARY KEY CHECK (name = 'kind'),
    kind       text   NOT NULL CHECK (kind IN ('development', 'production')),
    marked_ms  bigint NOT NULL
);
