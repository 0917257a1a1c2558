-- How many of an author's memories left review accepted, and since when the author is
-- known. What is unknown of earlier authors counts in their favour: all that they wrote was
-- accepted, and they have been known since 1970.
ALTER TABLE actor ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE actor ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
UPDATE actor SET accepted = facts;
