-- _cron_ticks: when a cron text in a time zone is due after one moment, up to and with another, at most so often, in order: the same ticks
-- that Python's scheduler computes (redrive.watch.times), daylight saving included.
create function redrive._cron_ticks(p_cron text, p_tz text, p_after timestamptz, p_until timestamptz, p_most integer) returns setof timestamptz
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_fields constant text[] := string_to_array(p_cron, ' ');
    v_minutes constant integer[] := redrive._cron_field(v_fields[1], 'minute');
    v_hours constant integer[] := redrive._cron_field(v_fields[2], 'hour');
    v_days constant integer[] := redrive._cron_field(v_fields[3], 'day');
    v_months constant integer[] := redrive._cron_field(v_fields[4], 'month');
    v_weekdays constant integer[] := redrive._cron_field(v_fields[5], 'weekday');
    v_both constant boolean := v_fields[3] like '*%' or v_fields[5] like '*%';
    v_flows constant boolean := v_fields[1] like '*%' or v_fields[2] like '*%';
    v_end constant date := (p_until at time zone p_tz)::date;
    v_from date := (p_after at time zone p_tz)::date;
    v_to date;
    v_day date;
    v_tick timestamptz;
    v_left integer := p_most;
begin
    -- A few days first: mostly one of them has what is asked for.
    while v_from <= v_end loop
        v_to := least(v_end, coalesce(v_to, v_from) + case when v_to is null then 2 else 400 end);
        for v_day in select v_from + g from generate_series(0, v_to - v_from) g
                      where extract(month from v_from + g)::integer = any (v_months)
                        and redrive._cron_day(v_from + g, v_days, v_weekdays, v_both) order by 1 loop
            for v_tick in select t from redrive._cron_times(v_day, p_tz, v_hours, v_minutes, v_flows) t where t > p_after and t <= p_until order by 1 loop
                return next v_tick;
                v_left := v_left - 1;
                if v_left <= 0 then
                    return;
                end if;
            end loop;
        end loop;
        v_from := v_to + 1;
    end loop;
end
$$;
revoke all on function redrive._cron_ticks(text, text, timestamptz, timestamptz, integer) from public;
