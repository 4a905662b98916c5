-- Another coordinator has none of the batches that the former one acknowledged. 1 = batches of a new origin follow, numbered from 1,
-- as soon as none of this one is left (agent_database.hpp).
ALTER TABLE identity ADD COLUMN renew INTEGER NOT NULL DEFAULT 0;
