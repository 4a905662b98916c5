-- Each row carries a checksum of its values (src/store/row_checksum.hpp), which is verified where it is read. Rows that
-- cannot be read are set apart, and hide nothing else.
ALTER TABLE fingerprints ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE origins ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE batches ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cost_keys ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE costs ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE facts ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE fingerprints SET checksum = row_checksum(hash, json);
UPDATE origins SET checksum = row_checksum(id, name, folded, node);
UPDATE batches SET checksum = row_checksum(origin, number, fingerprint, source, costs);
UPDATE cost_keys SET checksum = row_checksum(id, kind, subject, dtype, samples, tp, sharding, bytes, group_size, placement,
                                             algorithm, protocol, channels, kernel_class);
UPDATE costs SET checksum = row_checksum(fingerprint, cost_key, source, origin, statistics);
UPDATE facts SET checksum = row_checksum(fingerprint, name, json);

-- What could not be read when the database was opened. The file that it stood in is kept beside this one.
CREATE TABLE set_apart (
  place TEXT NOT NULL,   -- the table
  reason TEXT NOT NULL,
  row_text TEXT NOT NULL
) STRICT;
