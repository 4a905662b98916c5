-- What the coordinator must know again after it was killed. A run is one submission of a job; a name's latest run is "the" job.
CREATE TABLE identity (coordinator TEXT NOT NULL);  -- command ids count within it
INSERT INTO identity VALUES (lower(hex(randomblob(16))));

CREATE TABLE jobs (
  run INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  phase TEXT NOT NULL,
  active INTEGER NOT NULL,        -- 1 until the phase is final
  state TEXT NOT NULL,            -- the tuning machine's persisted part, JSON
  timelines TEXT NOT NULL DEFAULT '{}',
  created_ns INTEGER NOT NULL,    -- wall clock
  changed_ns INTEGER NOT NULL
);
CREATE INDEX jobs_by_name ON jobs (name, run);

CREATE TABLE phases (
  run INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  phase TEXT NOT NULL,
  entered_ns INTEGER NOT NULL,
  PRIMARY KEY (run, sequence)
) WITHOUT ROWID;

CREATE TABLE trials (
  run INTEGER NOT NULL,
  trial INTEGER NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  plan_hash TEXT NOT NULL,
  plan TEXT NOT NULL,
  predicted_ms REAL NOT NULL,
  measured_ms REAL NOT NULL,      -- 0 = not measured
  changed_ns INTEGER NOT NULL,
  PRIMARY KEY (run, trial)
) WITHOUT ROWID;

-- Measured steps: what every mean in a report was made of. `trial` 0 is the initial measurement or the final comparison.
CREATE TABLE steps (
  run INTEGER NOT NULL,
  launch INTEGER NOT NULL,
  step INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  trial INTEGER NOT NULL,
  block INTEGER NOT NULL,
  warmup INTEGER NOT NULL,
  wall_ms REAL NOT NULL,
  loss REAL NOT NULL,
  PRIMARY KEY (run, launch, step)
) WITHOUT ROWID;

-- A command keeps its id however often it is sent; agents run an id once.
CREATE TABLE commands (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL,
  tag TEXT NOT NULL,
  node TEXT NOT NULL,
  done INTEGER NOT NULL DEFAULT 0,
  UNIQUE (run, tag)
);

CREATE TABLE events (
  run INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  at_ns INTEGER NOT NULL,
  kind TEXT NOT NULL,
  text TEXT NOT NULL,
  data TEXT NOT NULL,
  PRIMARY KEY (run, sequence)
) WITHOUT ROWID;
