-- The cost database. How folding and merging work, and why they are exact: schema/README.md, "Batches and merging".

CREATE TABLE fingerprints (
  hash TEXT NOT NULL PRIMARY KEY,
  json TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Who numbers batches. All of 1 ... folded are stored as one sum per cost; they have no rows in `batches`.
CREATE TABLE origins (
  id INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  folded INTEGER NOT NULL DEFAULT 0 CHECK (folded >= 0)
) STRICT;

-- Batches that are stored one by one: those after `folded`, and number 0, which is never folded.
CREATE TABLE batches (
  origin INTEGER NOT NULL REFERENCES origins (id),
  number INTEGER NOT NULL CHECK (number >= 0),
  PRIMARY KEY (origin, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE cost_keys (
  id INTEGER NOT NULL PRIMARY KEY,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  dtype TEXT NOT NULL,
  samples INTEGER NOT NULL,
  tp INTEGER NOT NULL,
  sharding TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  group_size INTEGER NOT NULL,
  placement TEXT NOT NULL,
  UNIQUE (kind, subject, dtype, samples, tp, sharding, bytes, group_size, placement)
) STRICT;

-- The statistics that one batch (or, with number -1, the folded batches of an origin) has of one cost.
CREATE TABLE costs (
  fingerprint TEXT NOT NULL REFERENCES fingerprints (hash),
  cost_key INTEGER NOT NULL REFERENCES cost_keys (id),
  source TEXT NOT NULL,
  origin INTEGER NOT NULL REFERENCES origins (id),
  number INTEGER NOT NULL CHECK (number >= -1),
  statistics TEXT NOT NULL,
  PRIMARY KEY (fingerprint, cost_key, source, origin, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX costs_by_batch ON costs (origin, number);

-- Of two facts of one name the higher revision counts, then the greater text: the same in whatever order they meet.
CREATE TABLE facts (
  fingerprint TEXT NOT NULL,
  name TEXT NOT NULL,
  revision INTEGER NOT NULL,
  json TEXT NOT NULL,
  PRIMARY KEY (fingerprint, name)
) STRICT, WITHOUT ROWID;
