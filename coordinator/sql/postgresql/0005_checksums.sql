-- As ../0006_checksums.sql. Checksum 0: a row from before, which gets its checksum when it is written next.
CREATE TABLE documents (
  run BIGINT NOT NULL,
  kind BYTEA NOT NULL,
  json BYTEA NOT NULL,
  checksum BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (run, kind)
);
INSERT INTO documents SELECT run, 'state', state, 0 FROM jobs;
INSERT INTO documents SELECT run, 'timelines', timelines, 0 FROM jobs WHERE timelines <> '{}';
INSERT INTO documents SELECT run, 'card', card, 0 FROM jobs WHERE card <> '';

ALTER TABLE jobs
  ADD COLUMN tenant BYTEA NOT NULL DEFAULT '*',
  ADD COLUMN launch BIGINT NOT NULL DEFAULT 1048576,
  ADD COLUMN checksum BIGINT NOT NULL DEFAULT 0;
DO $$
DECLARE one RECORD;
BEGIN
  FOR one IN SELECT run, state FROM jobs LOOP
    BEGIN
      UPDATE jobs SET
        tenant = COALESCE(convert_to(convert_from(one.state, 'UTF8')::json ->> 'tenant', 'UTF8'), '*'),
        launch = COALESCE((convert_from(one.state, 'UTF8')::json ->> 'launch')::bigint, 0)
        WHERE run = one.run;
    EXCEPTION WHEN OTHERS THEN NULL;  -- a state that cannot be read says neither
    END;
  END LOOP;
END $$;
ALTER TABLE jobs DROP COLUMN state, DROP COLUMN timelines, DROP COLUMN card;

ALTER TABLE identity ADD COLUMN checksum BIGINT NOT NULL DEFAULT 0;
CREATE TABLE identity_again (
  coordinator BYTEA NOT NULL,
  last_launch BIGINT NOT NULL DEFAULT 0,
  checksum BIGINT NOT NULL DEFAULT 0
);
INSERT INTO identity_again SELECT coordinator, last_launch, checksum FROM identity;
ALTER TABLE phases ADD COLUMN checksum BIGINT NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN checksum BIGINT NOT NULL DEFAULT 0;
ALTER TABLE steps ADD COLUMN checksum BIGINT NOT NULL DEFAULT 0;
ALTER TABLE commands ADD COLUMN checksum BIGINT NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN checksum BIGINT NOT NULL DEFAULT 0;
ALTER TABLE audit ADD COLUMN checksum BIGINT NOT NULL DEFAULT 0;
DROP TRIGGER audit_keeps_words ON audit;
CREATE TRIGGER audit_keeps_words BEFORE UPDATE OF entry, at_ns, who, what, job, run, why, tenant ON audit
  FOR EACH ROW EXECUTE FUNCTION audit_keeps();
