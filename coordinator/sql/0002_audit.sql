-- Who did what to which job, when and why: people, nodes, and the coordinator itself, which writes before it acts. Rows are only
-- ever added.
CREATE TABLE audit (
  entry INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ns INTEGER NOT NULL,         -- wall clock
  who TEXT NOT NULL,
  what TEXT NOT NULL,
  job TEXT NOT NULL,              -- '' = of none
  run INTEGER NOT NULL,           -- 0 = of none
  why TEXT NOT NULL
);
CREATE INDEX audit_by_job ON audit (job, entry);
CREATE TRIGGER audit_keeps_rows BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
CREATE TRIGGER audit_keeps_words BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
