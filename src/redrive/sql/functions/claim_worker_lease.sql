-- claim_worker_lease: the article's lease: true for one caller until p_seconds have passed, null for the others.
-- It has no owner; for a run that may outlast it use acquire_lease, renew_lease and release_lease.
-- part: work
create function redrive.claim_worker_lease(p_worker text, p_seconds integer default 55) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    return case when redrive._lease(p_worker, p_seconds) is not null then true end;
end
$$;
revoke all on function redrive.claim_worker_lease(text, integer) from public;
