-- _ticks: when a schedule is due after one moment, up to and with another, at most so often, in order. An interval's are multiples of
-- it since 1970.
create function redrive._ticks(s redrive.schedule, p_after timestamptz, p_until timestamptz, p_most integer) returns setof timestamptz
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_step constant numeric := trunc(s.every_sec * 1000000);
    v_first numeric;
    v_last numeric;
begin
    if s.cron is not null then
        return query select t from redrive._cron_ticks(s.cron, s.tz, p_after, least(p_until, p_after + interval '41 years'), p_most) t order by 1;
        return;
    end if;
    v_first := floor(extract(epoch from p_after)::numeric * 1000000 / v_step) + 1;
    v_last := v_first + p_most - 1;
    if p_until < 'infinity' then
        v_last := least(v_last, floor(extract(epoch from p_until)::numeric * 1000000 / v_step));
    end if;
    return query select timestamptz '1970-01-01 00:00:00Z' + interval '1 microsecond' * (n * v_step)::float8 from generate_series(v_first, v_last) n order by 1;
end
$$;
revoke all on function redrive._ticks(redrive.schedule, timestamptz, timestamptz, integer) from public;
