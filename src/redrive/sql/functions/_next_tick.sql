-- _next_tick: when a schedule is due first after this moment; null where its text or zone cannot be read here.
create function redrive._next_tick(s redrive.schedule, p_after timestamptz) returns timestamptz
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
    return (select t from redrive._ticks(s, p_after, 'infinity', 1) t);
exception when others then
    return null;
end
$$;
revoke all on function redrive._next_tick(redrive.schedule, timestamptz) from public;
