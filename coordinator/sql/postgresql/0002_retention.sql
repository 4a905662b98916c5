-- What is over is forgotten after a time: ../0003_retention.sql.
ALTER TABLE identity ADD COLUMN last_launch BIGINT NOT NULL DEFAULT 0;
CREATE INDEX jobs_by_end ON jobs (active, changed_ns);

CREATE TABLE audit_horizon (at_ns BIGINT NOT NULL);
INSERT INTO audit_horizon VALUES (0);
CREATE INDEX audit_by_time ON audit (at_ns);
CREATE FUNCTION audit_keeps_recent() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN
    IF OLD.at_ns < (SELECT at_ns FROM audit_horizon) THEN RETURN OLD; END IF;
    RAISE EXCEPTION 'the audit log is only added to';
  END $$;
DROP TRIGGER audit_keeps_rows ON audit;
CREATE TRIGGER audit_keeps_rows BEFORE DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_keeps_recent();
CREATE TRIGGER audit_keeps_words BEFORE UPDATE ON audit FOR EACH ROW EXECUTE FUNCTION audit_keeps();
