-- The agent's own state. What each class keeps here: agent/src/{batch_spool,rank_ledger,command_ledger}.hpp.

-- One row: the random name under which this database numbers its batches, and the coordinator whose command ids we know.
CREATE TABLE identity (
  instance TEXT NOT NULL,
  coordinator TEXT NOT NULL DEFAULT ''
) STRICT;

-- Cost batches that the coordinator has not acknowledged. AUTOINCREMENT: a number is never used again.
CREATE TABLE batches (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  active INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  payload TEXT NOT NULL
) STRICT;

-- The latest launch of each rank. pid 0 = it was never started.
CREATE TABLE ranks (
  job TEXT NOT NULL,
  variant TEXT NOT NULL,
  rank INTEGER NOT NULL,
  launch INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  start_time INTEGER NOT NULL,
  said_bye INTEGER NOT NULL DEFAULT 0,
  ended INTEGER NOT NULL DEFAULT 0,
  exit_code INTEGER NOT NULL DEFAULT 0,
  signal INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (job, variant, rank)
) STRICT, WITHOUT ROWID;

-- Commands that are done, with their replies; `digest` tells a repetition from another command with the same id.
CREATE TABLE commands (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL,
  ok INTEGER NOT NULL,
  error TEXT NOT NULL,
  output TEXT NOT NULL,
  exit_code INTEGER NOT NULL
) STRICT;
