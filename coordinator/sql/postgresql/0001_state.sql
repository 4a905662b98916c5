-- The coordinator's state on PostgreSQL: the tables of ../ at the version that this began with. Versions are counted on
-- their own here. Texts are BYTEA: any bytes are stored as they are; encode(name, 'escape') shows them to people.
CREATE TABLE identity (coordinator BYTEA NOT NULL);
INSERT INTO identity VALUES (convert_to(replace(gen_random_uuid()::text, '-', ''), 'UTF8'));

CREATE TABLE jobs (
  run BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name BYTEA NOT NULL,
  phase BYTEA NOT NULL,
  active BIGINT NOT NULL,
  state BYTEA NOT NULL,
  timelines BYTEA NOT NULL DEFAULT '{}',
  created_ns BIGINT NOT NULL,
  changed_ns BIGINT NOT NULL
);
CREATE INDEX jobs_by_name ON jobs (name, run);

CREATE TABLE phases (
  run BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  phase BYTEA NOT NULL,
  entered_ns BIGINT NOT NULL,
  PRIMARY KEY (run, sequence)
);

CREATE TABLE trials (
  run BIGINT NOT NULL,
  trial BIGINT NOT NULL,
  state BYTEA NOT NULL,
  reason BYTEA NOT NULL,
  plan_hash BYTEA NOT NULL,
  plan BYTEA NOT NULL,
  predicted_ms DOUBLE PRECISION NOT NULL,
  measured_ms DOUBLE PRECISION NOT NULL,
  changed_ns BIGINT NOT NULL,
  PRIMARY KEY (run, trial)
);

CREATE TABLE steps (
  run BIGINT NOT NULL,
  launch BIGINT NOT NULL,
  step BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  trial BIGINT NOT NULL,
  block BIGINT NOT NULL,
  warmup BIGINT NOT NULL,
  wall_ms DOUBLE PRECISION NOT NULL,
  loss DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (run, launch, step)
);

CREATE TABLE commands (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run BIGINT NOT NULL,
  tag BYTEA NOT NULL,
  node BYTEA NOT NULL,
  done BIGINT NOT NULL DEFAULT 0,
  UNIQUE (run, tag)
);

CREATE TABLE events (
  run BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  at_ns BIGINT NOT NULL,
  kind BYTEA NOT NULL,
  text BYTEA NOT NULL,
  data BYTEA NOT NULL,
  PRIMARY KEY (run, sequence)
);

CREATE TABLE audit (
  entry BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at_ns BIGINT NOT NULL,
  who BYTEA NOT NULL,
  what BYTEA NOT NULL,
  job BYTEA NOT NULL,
  run BIGINT NOT NULL,
  why BYTEA NOT NULL
);
CREATE INDEX audit_by_job ON audit (job, entry);
CREATE FUNCTION audit_keeps() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'the audit log is only added to'; END $$;
CREATE TRIGGER audit_keeps_rows BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_keeps();
CREATE TRIGGER audit_keeps_all BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_keeps();
