-- The cost database on PostgreSQL: the tables of ../ at the version that this began with. Versions are counted on their
-- own here. Texts are BYTEA: any bytes are stored as they are and compare as bytes, as SQLite's do; encode(name, 'escape')
-- shows them to people.

CREATE TABLE fingerprints (
  hash BYTEA PRIMARY KEY,
  json BYTEA NOT NULL
);

-- Whoever changes what belongs to an origin locks its row first.
CREATE TABLE origins (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name BYTEA NOT NULL UNIQUE,
  folded BIGINT NOT NULL DEFAULT 0 CHECK (folded >= 0)
);

CREATE TABLE batches (
  origin BIGINT NOT NULL REFERENCES origins (id),
  number BIGINT NOT NULL CHECK (number >= 0),
  PRIMARY KEY (origin, number)
);

CREATE TABLE cost_keys (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind BYTEA NOT NULL,
  subject BYTEA NOT NULL,
  dtype BYTEA NOT NULL,
  samples BIGINT NOT NULL,
  tp BIGINT NOT NULL,
  sharding BYTEA NOT NULL,
  bytes BIGINT NOT NULL,
  group_size BIGINT NOT NULL,
  placement BYTEA NOT NULL,
  algorithm BYTEA NOT NULL,
  protocol BYTEA NOT NULL,
  channels BIGINT NOT NULL,
  kernel_class BYTEA NOT NULL
);
-- Kernels have longer names than a btree holds: the digest of a key's texts stands for them, and keys are looked up by it.
CREATE UNIQUE INDEX cost_keys_once ON cost_keys (
  sha256(sha256(kind) || sha256(subject) || sha256(dtype) || sha256(sharding) || sha256(placement) || sha256(algorithm) ||
         sha256(protocol) || sha256(kernel_class)),
  samples, tp, bytes, group_size, channels);

CREATE TABLE costs (
  fingerprint BYTEA NOT NULL REFERENCES fingerprints (hash),
  cost_key BIGINT NOT NULL REFERENCES cost_keys (id),
  source BYTEA NOT NULL,
  origin BIGINT NOT NULL REFERENCES origins (id),
  number BIGINT NOT NULL CHECK (number >= -1),
  statistics BYTEA NOT NULL,
  PRIMARY KEY (fingerprint, cost_key, source, origin, number)
);
CREATE INDEX costs_by_batch ON costs (origin, number);

CREATE TABLE facts (
  fingerprint BYTEA NOT NULL,
  name BYTEA NOT NULL,
  revision BIGINT NOT NULL,
  json BYTEA NOT NULL,
  PRIMARY KEY (fingerprint, name)
);
