-- _read_schedules: how late each schedule is; one that is paused or not due is not.
create function redrive._read_schedules(p_now timestamptz) returns setof redrive._reading
language plpgsql set search_path = ''
as $$
begin
    if to_regprocedure('redrive.schedules()') is not null then
        return query execute $q$
            select 'schedule_lag_sec', s.name::text, coalesce(s.lag_sec, 0)::double precision, null::jsonb from redrive.schedules() s limit 1000 $q$;
    end if;
end
$$;
revoke all on function redrive._read_schedules(timestamptz) from public;
