-- Ranks of jobs that their users launched, with the job's world size. 0 = this agent has launched the rank.
ALTER TABLE ranks ADD COLUMN watched_world_size INTEGER NOT NULL DEFAULT 0;
