-- release_lease: give a lease back. False when the token does not hold it.
-- part: work
create function redrive.release_lease(p_name text, p_token bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    delete from redrive.lease l where l.name = p_name and l.token = p_token;
    return found;
end
$$;
revoke all on function redrive.release_lease(text, bigint) from public;
