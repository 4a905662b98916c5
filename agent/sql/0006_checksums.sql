-- Each row carries a checksum of its values (schema/src/store/row_checksum.hpp), which is verified where it is read. Rows
-- that cannot be read are set apart, and hide nothing else.
ALTER TABLE identity ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE batches ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ranks ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE commands ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE unreadable_batches ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE identity SET checksum = row_checksum(instance, coordinator, renew, renew_above);
UPDATE batches SET checksum = row_checksum(id, active, bytes, payload);
UPDATE ranks SET checksum = row_checksum(job, variant, rank, launch, epoch, pid, start_time, said_bye, ended, exit_code,
                                         signal, watched_world_size);
UPDATE commands SET checksum = row_checksum(id, digest, ok, error, output, exit_code);
UPDATE unreadable_batches SET checksum = row_checksum(instance, id, payload, reason);

-- What must not be lost with one damaged row, once more elsewhere in the file: without its instance's name batches would
-- count twice, and a rank that nobody knows would run beside another.
CREATE TABLE identity_again (
  instance TEXT NOT NULL,
  coordinator TEXT NOT NULL DEFAULT '',
  renew INTEGER NOT NULL DEFAULT 0,
  renew_above INTEGER NOT NULL DEFAULT 9223372036854775807,
  checksum INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE ranks_again (
  job TEXT NOT NULL,
  variant TEXT NOT NULL,
  rank INTEGER NOT NULL,
  launch INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  start_time INTEGER NOT NULL,
  said_bye INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  exit_code INTEGER NOT NULL,
  signal INTEGER NOT NULL,
  watched_world_size INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  PRIMARY KEY (job, variant, rank)
) STRICT, WITHOUT ROWID;
INSERT INTO identity_again SELECT instance, coordinator, renew, renew_above, checksum FROM identity;
INSERT INTO ranks_again SELECT job, variant, rank, launch, epoch, pid, start_time, said_bye, ended, exit_code, signal,
                               watched_world_size, checksum FROM ranks;
CREATE TRIGGER identity_begins AFTER INSERT ON identity BEGIN
  DELETE FROM identity_again;
  INSERT INTO identity_again VALUES (NEW.instance, NEW.coordinator, NEW.renew, NEW.renew_above, NEW.checksum);
END;
CREATE TRIGGER identity_changes AFTER UPDATE ON identity BEGIN
  DELETE FROM identity_again;
  INSERT INTO identity_again VALUES (NEW.instance, NEW.coordinator, NEW.renew, NEW.renew_above, NEW.checksum);
END;
CREATE TRIGGER rank_is_put AFTER INSERT ON ranks BEGIN
  INSERT OR REPLACE INTO ranks_again VALUES (NEW.job, NEW.variant, NEW.rank, NEW.launch, NEW.epoch, NEW.pid, NEW.start_time,
    NEW.said_bye, NEW.ended, NEW.exit_code, NEW.signal, NEW.watched_world_size, NEW.checksum);
END;
CREATE TRIGGER rank_is_forgotten AFTER DELETE ON ranks BEGIN
  DELETE FROM ranks_again WHERE job = OLD.job AND variant = OLD.variant AND rank = OLD.rank;
END;

-- What could not be read when the database was opened. The file that it stood in is kept beside this one.
CREATE TABLE set_apart (
  place TEXT NOT NULL,   -- the table
  reason TEXT NOT NULL,
  row_text TEXT NOT NULL
) STRICT;
