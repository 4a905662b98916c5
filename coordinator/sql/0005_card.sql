-- The job's verdict card (schema/api/card.hpp), as it was stored last; '' = none.
ALTER TABLE jobs ADD COLUMN card TEXT NOT NULL DEFAULT '';
