-- renew_lease: keep a lease for p_seconds from now. False when the token no longer holds it: stop working.
-- part: work
create function redrive.renew_lease(p_name text, p_token bigint, p_seconds numeric) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
begin
    if p_seconds is null or p_seconds <= 0 or p_seconds > 3155760000 then
        perform redrive._refuse(format('lease seconds is %s; it must be above 0', coalesce(p_seconds::text, 'null')));
    end if;
    update redrive.lease l set lease_until = greatest(l.lease_until, v_now + make_interval(secs => p_seconds::float8))
     where l.name = p_name and l.token = p_token and l.lease_until > v_now;
    return found;
end
$$;
revoke all on function redrive.renew_lease(text, bigint, numeric) from public;
