-- Batches of the spool that the release which found them could not read, kept until one enters them. A batch may stand in the spool, too:
-- the coordinator may understand it.
CREATE TABLE unreadable_batches (
  instance TEXT NOT NULL,
  id INTEGER NOT NULL,
  payload TEXT NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (instance, id)
) STRICT;
