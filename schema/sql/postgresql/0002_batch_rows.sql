-- As ../0003_batch_rows.sql: a batch that is not folded yet is one row, and `costs` keeps the folded sums alone.

ALTER TABLE batches
  ADD COLUMN fingerprint BYTEA REFERENCES fingerprints (hash),
  ADD COLUMN source BYTEA NOT NULL DEFAULT '',
  ADD COLUMN costs BYTEA NOT NULL DEFAULT '';
UPDATE batches b SET fingerprint = c.fingerprint, source = c.source, costs = c.costs
  FROM (SELECT origin, number, (array_agg(fingerprint))[1] AS fingerprint, (array_agg(source))[1] AS source,
               string_agg(convert_to(cost_key::text || ' ', 'UTF8') || statistics || convert_to(chr(10), 'UTF8'),
                          ''::bytea) AS costs
        FROM costs WHERE number >= 0 GROUP BY origin, number) c
  WHERE b.origin = c.origin AND b.number = c.number;
ALTER TABLE batches ALTER COLUMN source DROP DEFAULT, ALTER COLUMN costs DROP DEFAULT;

DELETE FROM costs WHERE number >= 0;
DROP INDEX costs_by_batch;
ALTER TABLE costs DROP COLUMN number;
ALTER TABLE costs ADD PRIMARY KEY (fingerprint, cost_key, source, origin);
CREATE INDEX costs_by_origin ON costs (origin);
