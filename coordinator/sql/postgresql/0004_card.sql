-- The job's verdict card: ../0005_card.sql.
ALTER TABLE jobs ADD COLUMN card BYTEA NOT NULL DEFAULT '';
