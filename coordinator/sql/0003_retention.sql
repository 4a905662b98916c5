-- What is over is forgotten after a time (coordinator/src/retention.hpp). No launch of a job may have the number of one whose ranks
-- might still be somewhere: of the runs that are forgotten the highest is kept.
ALTER TABLE identity ADD COLUMN last_launch INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_by_end ON jobs (active, changed_ns);

-- Entries of the audit log from before `at_ns` may be removed, and no others.
CREATE TABLE audit_horizon (at_ns INTEGER NOT NULL);
INSERT INTO audit_horizon VALUES (0);
CREATE INDEX audit_by_time ON audit (at_ns);
DROP TRIGGER audit_keeps_rows;
CREATE TRIGGER audit_keeps_rows BEFORE DELETE ON audit WHEN OLD.at_ns >= (SELECT at_ns FROM audit_horizon)
BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
