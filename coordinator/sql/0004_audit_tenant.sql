-- Whose job an entry is about: a name may be another tenant's later. '' = of no job, or written before this column was.
ALTER TABLE audit ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
