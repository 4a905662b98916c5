-- Origins once more, elsewhere in the file: without its origin's name a batch that comes again would count twice.
CREATE TABLE origins_again (
  id INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  folded INTEGER NOT NULL,
  node TEXT NOT NULL,
  checksum INTEGER NOT NULL
) STRICT;
INSERT INTO origins_again SELECT id, name, folded, node, checksum FROM origins;
CREATE TRIGGER origin_is_new AFTER INSERT ON origins BEGIN
  INSERT OR REPLACE INTO origins_again VALUES (NEW.id, NEW.name, NEW.folded, NEW.node, NEW.checksum);
END;
CREATE TRIGGER origin_changes AFTER UPDATE ON origins BEGIN
  INSERT OR REPLACE INTO origins_again VALUES (NEW.id, NEW.name, NEW.folded, NEW.node, NEW.checksum);
END;
