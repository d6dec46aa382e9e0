-- acquire_lease: a named single-flight right for p_seconds: its fencing token, or null while somebody else holds it.
-- part: work
create function redrive.acquire_lease(p_name text, p_seconds numeric) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    return redrive._lease(p_name, p_seconds);
end
$$;
revoke all on function redrive.acquire_lease(text, numeric) from public;
