-- As ../0004_origin_nodes.sql.
ALTER TABLE origins ADD COLUMN node BYTEA NOT NULL DEFAULT '';
