-- lease_is_mine: does this token hold the lease now?
-- part: work
create function redrive.lease_is_mine(p_name text, p_token bigint) returns boolean
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select exists (select from redrive.lease l where l.name = p_name and l.token = p_token and l.lease_until > redrive.clock())
$$;
revoke all on function redrive.lease_is_mine(text, bigint) from public;
