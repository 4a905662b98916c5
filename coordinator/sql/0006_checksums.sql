-- Each row carries a checksum of its values (schema/src/store/row_checksum.hpp), which is verified where it is read. Rows
-- that cannot be read are set apart, and hide nothing else.

-- A run's texts are rows of their own, so that a damaged one leaves the run's name, its owner and its launches.
CREATE TABLE documents (
  run INTEGER NOT NULL,
  kind TEXT NOT NULL,             -- state (the tuning machine's persisted part), timelines, card
  json TEXT NOT NULL,
  checksum INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (run, kind)
);
INSERT INTO documents SELECT run, 'state', state, 0 FROM jobs;
INSERT INTO documents SELECT run, 'timelines', timelines, 0 FROM jobs WHERE timelines <> '{}';
INSERT INTO documents SELECT run, 'card', card, 0 FROM jobs WHERE card <> '';
UPDATE documents SET checksum = row_checksum(run, kind, json);

ALTER TABLE jobs ADD COLUMN tenant TEXT NOT NULL DEFAULT '*';
ALTER TABLE jobs ADD COLUMN launch INTEGER NOT NULL DEFAULT 1048576;  -- its latest; where nobody can read it, a later one
ALTER TABLE jobs ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET tenant = COALESCE(json_extract(state, '$.tenant'), '*'), launch = COALESCE(json_extract(state, '$.launch'), 0)
  WHERE json_valid(state);
ALTER TABLE jobs DROP COLUMN state;
ALTER TABLE jobs DROP COLUMN timelines;
ALTER TABLE jobs DROP COLUMN card;
UPDATE jobs SET checksum = row_checksum(run, name, tenant, phase, active, launch, changed_ns);

ALTER TABLE identity ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE identity SET checksum = row_checksum(coordinator, last_launch);
-- The same once more, elsewhere in the file: agents keep commands apart by it.
CREATE TABLE identity_again (
  coordinator TEXT NOT NULL,
  last_launch INTEGER NOT NULL DEFAULT 0,
  checksum INTEGER NOT NULL DEFAULT 0
);
INSERT INTO identity_again SELECT coordinator, last_launch, checksum FROM identity;

ALTER TABLE phases ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE steps ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE commands ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE audit ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
DROP TRIGGER audit_keeps_words;
UPDATE phases SET checksum = row_checksum(run, sequence, phase, entered_ns);
UPDATE trials SET checksum = row_checksum(run, trial, state, reason, plan_hash, plan, predicted_ms, measured_ms, changed_ns);
UPDATE steps SET checksum = row_checksum(run, launch, step, epoch, trial, block, warmup, wall_ms, loss);
UPDATE commands SET checksum = row_checksum(id, run, tag, node, done);
UPDATE events SET checksum = row_checksum(run, sequence, at_ns, kind, text, data);
UPDATE audit SET checksum = row_checksum(entry, at_ns, who, what, job, run, why, tenant);
-- An entry has its number, and with it its checksum, once it is there.
CREATE TRIGGER audit_keeps_words BEFORE UPDATE OF entry, at_ns, who, what, job, run, why, tenant ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;

-- What could not be read when the database was opened. The file that it stood in is kept beside this one.
CREATE TABLE set_apart (
  place TEXT NOT NULL,            -- the table
  reason TEXT NOT NULL,
  row_text TEXT NOT NULL
);
