-- Keys say how a collective was run and beside which class of kernels something was slowed down. SQLite cannot widen a
-- UNIQUE constraint, so both tables are written anew; costs first loses its old parent, then gets the new one.

CREATE TABLE cost_keys_2 (
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
  algorithm TEXT NOT NULL,
  protocol TEXT NOT NULL,
  channels INTEGER NOT NULL,
  kernel_class TEXT NOT NULL,
  UNIQUE (kind, subject, dtype, samples, tp, sharding, bytes, group_size, placement, algorithm, protocol, channels,
          kernel_class)
) STRICT;
INSERT INTO cost_keys_2
  SELECT id, kind, subject, dtype, samples, tp, sharding, bytes, group_size, placement, '', '', 0, '' FROM cost_keys;

CREATE TABLE costs_2 (
  fingerprint TEXT NOT NULL REFERENCES fingerprints (hash),
  cost_key INTEGER NOT NULL REFERENCES cost_keys_2 (id),
  source TEXT NOT NULL,
  origin INTEGER NOT NULL REFERENCES origins (id),
  number INTEGER NOT NULL CHECK (number >= -1),
  statistics TEXT NOT NULL,
  PRIMARY KEY (fingerprint, cost_key, source, origin, number)
) STRICT, WITHOUT ROWID;
INSERT INTO costs_2 SELECT fingerprint, cost_key, source, origin, number, statistics FROM costs;

DROP TABLE costs;
DROP TABLE cost_keys;
ALTER TABLE cost_keys_2 RENAME TO cost_keys;
ALTER TABLE costs_2 RENAME TO costs;
CREATE INDEX costs_by_batch ON costs (origin, number);
