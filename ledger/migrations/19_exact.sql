-- A text that was retracted is recognised by an exact hash alone.
ALTER TABLE retraction DROP COLUMN likeness;
