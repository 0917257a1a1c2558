-- An index for memories that were changed out-of-band, which are few. The index by vault
-- key had no query.
CREATE INDEX standing_unverified ON standing (backend, tenant, kind, id) WHERE unverified <> '';
DROP INDEX content_vault;
