-- Origins whose costs somebody contributed: who, when first and last (ns since 1970), and how many costs they have. Such
-- an origin has folded sums alone, each of which gives way to one of more values (src/costs/contributions.cpp).
CREATE TABLE contributions (
  origin INTEGER NOT NULL PRIMARY KEY REFERENCES origins (id),
  contributor TEXT NOT NULL,
  first_ns INTEGER NOT NULL,
  last_ns INTEGER NOT NULL,
  costs INTEGER NOT NULL,
  checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX contributions_by_contributor ON contributions (contributor);
