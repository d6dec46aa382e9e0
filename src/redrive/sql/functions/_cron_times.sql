-- _cron_times: when these hours and minutes of a day are in a time zone, in order. On a day on which the clock changes, p_flows: each minute at which
-- the clock shows one of them; else each of them once, as soon as the clock shows it or, where it is left out, a later time.
create function redrive._cron_times(p_day date, p_tz text, p_hours integer[], p_minutes integer[], p_flows boolean) returns setof timestamptz
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
    -- From noon to noon: a midnight may be there twice, or not at all.
    if (p_day + time '12:00' + interval '1 day') at time zone p_tz - (p_day + time '12:00' - interval '1 day') at time zone p_tz = interval '48 hours' then
        return query select (p_day::timestamp + make_interval(hours => h, mins => m)) at time zone p_tz from unnest(p_hours) h, unnest(p_minutes) m order by 1;
    else
        return query
            with shown as materialized (
                select t, (t at time zone p_tz)::time as clock
                  from generate_series(p_day::timestamp at time zone p_tz - interval '4 hours', p_day::timestamp at time zone p_tz + interval '28 hours', interval '1 minute') t
                 where (t at time zone p_tz)::date = p_day),
            wanted as (select make_time(h, m, 0) as clock from unnest(p_hours) h, unnest(p_minutes) m)
            select s.t from shown s where p_flows and s.clock in (select w.clock from wanted w)
            union
            select min(s.t) from wanted w join shown s on s.clock >= w.clock where not p_flows group by w.clock
            order by 1;
    end if;
end
$$;
revoke all on function redrive._cron_times(date, text, integer[], integer[], boolean) from public;
