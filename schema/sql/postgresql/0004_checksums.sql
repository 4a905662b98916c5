-- As ../0005_checksums.sql. 0: a row from before, which gets its checksum when it is written next.
ALTER TABLE fingerprints ADD COLUMN checksum BIGINT NOT NULL DEFAULT 0;
ALTER TABLE origins ADD COLUMN checksum BIGINT NOT NULL DEFAULT 0;
ALTER TABLE batches ADD COLUMN checksum BIGINT NOT NULL DEFAULT 0;
ALTER TABLE cost_keys ADD COLUMN checksum BIGINT NOT NULL DEFAULT 0;
ALTER TABLE costs ADD COLUMN checksum BIGINT NOT NULL DEFAULT 0;
ALTER TABLE facts ADD COLUMN checksum BIGINT NOT NULL DEFAULT 0;
