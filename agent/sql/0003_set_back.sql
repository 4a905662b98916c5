-- Where the database was set back to an older copy, or copied, its numbers may be used already. While renew = 1: batches up to this
-- number go out under the old instance, those above wait for the new one (agent_database.hpp).
ALTER TABLE identity ADD COLUMN renew_above INTEGER NOT NULL DEFAULT 9223372036854775807;
