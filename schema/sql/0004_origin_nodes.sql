-- The node that an origin's batches come from: the first that was named with one of them. '' = none was. What another
-- sends under the origin's name is kept apart (src/batch_insertion.hpp).
ALTER TABLE origins ADD COLUMN node TEXT NOT NULL DEFAULT '';
