-- As ../0007_contributions.sql.
CREATE TABLE contributions (
  origin BIGINT PRIMARY KEY REFERENCES origins (id),
  contributor BYTEA NOT NULL,
  first_ns BIGINT NOT NULL,
  last_ns BIGINT NOT NULL,
  costs BIGINT NOT NULL,
  checksum BIGINT NOT NULL
);
CREATE INDEX contributions_by_contributor ON contributions (contributor);
