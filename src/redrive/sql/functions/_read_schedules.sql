-- _read_schedules: how late each schedule is, and why, as far as it can be known here; one that is paused or not due is not.
create function redrive._read_schedules(p_now timestamptz) returns setof redrive._reading
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_by_cron constant text[] := redrive._cron_schedules();
begin
    return query
        select 'schedule_lag_sec', s.name, coalesce(s.lag_sec, 0), jsonb_build_object(
                   'why', case when s.name = any (v_by_cron) then 'its job of pg_cron does not run, or fails'
                               when s.seen_at > p_now - interval '60 seconds' then 'it cannot be sent, and the workers'' log says why'
                               else 'no running worker declares it' end)
          from redrive.schedules() s limit 1000;
end
$$;
revoke all on function redrive._read_schedules(timestamptz) from public;
