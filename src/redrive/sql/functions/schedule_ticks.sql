-- schedule_ticks: the newest ticks of a schedule and what became of each: sent (by hand too), skipped since the one before
-- was not over, waiting for its end, or missed while nobody fired.
-- part: operate, read
create function redrive.schedule_ticks(p_name text, p_limit integer default 20)
returns table (tick timestamptz, outcome text, msg_id bigint, at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    if not exists (select from redrive.schedule s where s.name = p_name) then
        perform redrive._no_schedule(p_name);
    elsif p_limit is null or p_limit not between 1 and 10000 then
        perform redrive._refuse(format('limit is %s; it must be from 1 to 10000', coalesce(p_limit::text, 'null')));
    end if;
    return query select t.tick, t.outcome, t.msg_id, t.at from redrive.schedule_tick t where t.name = p_name order by t.tick desc limit p_limit;
end
$$;
revoke all on function redrive.schedule_ticks(text, integer) from public;
