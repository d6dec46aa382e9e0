-- _check_next: refuse a next tick that is further away than this schedule's ticks can lie apart: its interval; some months for
-- a cron text without a month; 40 years for 'the fifth Friday of February'.
create function redrive._check_next(s redrive.schedule, p_next timestamptz, p_now timestamptz) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    -- A second more, since floats round.
    v_furthest timestamptz := greatest(p_now, s.base_at) + case when s.every_sec is not null then make_interval(secs => s.every_sec::float8 + 1)
        when split_part(s.cron, ' ', 4) = '*' then interval '200 days' else interval '41 years' end;
begin
    if redrive._sound(p_next) is null and p_next is not null or p_next > greatest(v_furthest, s.next_at) then
        perform redrive._refuse(format('schedule %s: its next tick cannot be %s; it comes by %s', s.name, p_next, v_furthest));
    end if;
end
$$;
revoke all on function redrive._check_next(redrive.schedule, timestamptz, timestamptz) from public;
