-- _check_schedules: refuse declarations of schedules that can never be right, naming the schedule and the field.
create function redrive._check_schedules(p_schedules jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    e jsonb;
    v_name text;
begin
    if p_schedules is null or jsonb_typeof(p_schedules) <> 'array' then
        perform redrive._refuse('schedules must be one JSON array');
    end if;
    for e in select value from jsonb_array_elements(p_schedules) loop
        v_name := e ->> 'name';
        if coalesce(length(v_name), 0) not between 1 and 100 then
            perform redrive._refuse('a schedule needs a name of 1 to 100 characters');
        elsif (e ->> 'queue' is null) <> (v_name like 'redrive.%') then
            perform redrive._refuse(format('schedule %s: a schedule has a queue, and its name does not begin with redrive.; '
                'redrive''s own have none', v_name));
        elsif (e ->> 'cron' is null) = (e ->> 'every_sec' is null) then
            perform redrive._refuse(format('schedule %s: it has a cron text or every_sec, one of the two', v_name));
        elsif e ->> 'every_sec' is not null and not coalesce(jsonb_typeof(e -> 'every_sec') = 'number'
                  and (e ->> 'every_sec')::numeric between 1 and 3155760000, false) then
            perform redrive._refuse(format('schedule %s: every_sec is %s; it must be a number of seconds, at least 1', v_name, e ->> 'every_sec'));
        elsif coalesce(e ->> 'tz', '') = '' or coalesce(e ->> 'missed', '') not in ('skip', 'one', 'all')
              or coalesce(e ->> 'overlap', '') not in ('allow', 'skip', 'queue') then
            perform redrive._refuse(format('schedule %s: it needs a tz, missed (skip, one or all) and overlap (allow, skip or queue)', v_name));
        end if;
    end loop;
end
$$;
revoke all on function redrive._check_schedules(jsonb) from public;
