-- drop_schedule: forget a schedule, its ticks, and what waits; what was sent stays. A worker that still declares it brings
-- it back when it starts.
-- part: operate
create function redrive.drop_schedule(p_name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
as $$
begin
    delete from redrive.schedule s where s.name = p_name;
    if not found then
        perform redrive._no_schedule(p_name);
    end if;
    delete from redrive.schedule_tick t where t.name = p_name;
end
$$;
revoke all on function redrive.drop_schedule(text) from public;
