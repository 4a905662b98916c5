-- A batch that is not folded yet is one row, whatever it holds: storing it is one insertion, folding it one deletion.
-- `costs` keeps the folded sums alone.

CREATE TABLE batches_3 (
  origin INTEGER NOT NULL REFERENCES origins (id),
  number INTEGER NOT NULL CHECK (number >= 0),
  fingerprint TEXT REFERENCES fingerprints (hash),  -- NULL where it has no costs
  source TEXT NOT NULL,
  costs TEXT NOT NULL,  -- for each a line: cost_key, a space, statistics
  PRIMARY KEY (origin, number)
) STRICT;
INSERT INTO batches_3
  SELECT b.origin, b.number, max(c.fingerprint), coalesce(max(c.source), ''),
         coalesce(group_concat(c.cost_key || ' ' || c.statistics || char(10), ''), '')
  FROM batches b LEFT JOIN costs c ON c.origin = b.origin AND c.number = b.number
  GROUP BY b.origin, b.number;

CREATE TABLE costs_3 (
  fingerprint TEXT NOT NULL REFERENCES fingerprints (hash),
  cost_key INTEGER NOT NULL REFERENCES cost_keys (id),
  source TEXT NOT NULL,
  origin INTEGER NOT NULL REFERENCES origins (id),
  statistics TEXT NOT NULL,
  PRIMARY KEY (fingerprint, cost_key, source, origin)
) STRICT, WITHOUT ROWID;
INSERT INTO costs_3 SELECT fingerprint, cost_key, source, origin, statistics FROM costs WHERE number = -1;

DROP TABLE batches;
DROP TABLE costs;
ALTER TABLE batches_3 RENAME TO batches;
ALTER TABLE costs_3 RENAME TO costs;
CREATE INDEX costs_by_origin ON costs (origin);
