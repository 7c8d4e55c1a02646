-- Rowid tables on purpose: rows of 1 to 4 KB in a WITHOUT ROWID table spill to overflow pages.
CREATE TABLE resource (
    id     INTEGER PRIMARY KEY,
    grp    TEXT NOT NULL,
    plural TEXT NOT NULL,
    UNIQUE (grp, plural)
);
CREATE TABLE object (
    id       INTEGER PRIMARY KEY,
    resource INTEGER NOT NULL REFERENCES resource (id),
    key      TEXT NOT NULL,
    version  INTEGER NOT NULL,
    expires  INTEGER,
    data     BLOB NOT NULL,
    UNIQUE (resource, key)
);
CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
);
