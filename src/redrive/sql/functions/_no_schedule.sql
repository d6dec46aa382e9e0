-- _no_schedule: refuse the name of a schedule that is not there.
create function redrive._no_schedule(p_name text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    perform redrive._refuse(format('there is no schedule %s here; redrive schedule list shows those there are, and a worker '
        'that declares one makes it known', coalesce(p_name, 'null')));
end
$$;
revoke all on function redrive._no_schedule(text) from public;
