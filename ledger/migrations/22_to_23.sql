-- A new hold reads its caller's waiting holds and the tenant's last ones, not the whole queue.
CREATE INDEX hold_author ON hold (tenant, state, principal, trust);
CREATE INDEX hold_recent ON hold (tenant, created, similarity) WHERE state = 'pending';
