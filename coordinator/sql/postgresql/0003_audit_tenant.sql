-- Whose job an entry is about: ../0004_audit_tenant.sql.
ALTER TABLE audit ADD COLUMN tenant BYTEA NOT NULL DEFAULT '';
