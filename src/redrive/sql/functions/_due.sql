-- _due: when a message sent now becomes visible; refuses null, negative and non-finite delays.
create function redrive._due(p_delay numeric, p_at timestamptz) returns timestamptz
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if p_at is not null then
        if not isfinite(p_at) then
            perform redrive._refuse(format('at is %s; give a finite time', p_at));
        end if;
        -- A time gone by is now: else the queue would look that old.
        return greatest(p_at, redrive.clock());
    elsif p_delay is null or p_delay < 0 or p_delay > 3155760000 then
        perform redrive._refuse(format('delay is %s; it must be a number of seconds from 0 to 3155760000 (a hundred years)', coalesce(p_delay::text, 'null')));
    end if;
    return redrive.clock() + make_interval(secs => p_delay::float8);
end
$$;
revoke all on function redrive._due(numeric, timestamptz) from public;
