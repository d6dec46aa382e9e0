-- _lease: take a lease that is free or over, under a token never used before; null while it is held. One of redrive's own that was
-- taken in the future is over: the clock ran ahead then, and what it guards may run twice.
create function redrive._lease(p_name text, p_seconds numeric) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
    v_token bigint;
    v_ahead timestamptz := case when p_name like 'redrive.%' then v_now + interval '1 minute' else 'infinity' end;
begin
    if p_name is null or p_name = '' or length(p_name) > 255 then
        perform redrive._refuse('a lease name is 1 to 255 characters');
    elsif p_seconds is null or p_seconds <= 0 or p_seconds > 3155760000 then
        perform redrive._refuse(format('lease seconds is %s; it must be above 0', coalesce(p_seconds::text, 'null')));
    end if;
    -- Looked at before it is written: a losing upsert would lock the row all the same.
    if exists (select from redrive.lease l where l.name = p_name and l.lease_until > v_now and l.acquired_at <= v_ahead) then
        return null;
    end if;
    insert into redrive.lease as l (name, token, acquired_at, lease_until)
         values (p_name, nextval('redrive.lease_token'), v_now, v_now + make_interval(secs => p_seconds::float8))
    on conflict (name) do update
        set token = excluded.token, holder = null, acquired_at = excluded.acquired_at, lease_until = excluded.lease_until
      where l.lease_until <= v_now or l.acquired_at > v_ahead
    returning l.token into v_token;
    return v_token;
end
$$;
revoke all on function redrive._lease(text, numeric) from public;
