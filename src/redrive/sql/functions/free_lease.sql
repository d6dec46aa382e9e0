-- free_lease: an operator takes a lease away from whoever holds it. False when there is none.
-- part: operate
create function redrive.free_lease(p_name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    delete from redrive.lease l where l.name = p_name;
    return found;
end
$$;
revoke all on function redrive.free_lease(text) from public;
