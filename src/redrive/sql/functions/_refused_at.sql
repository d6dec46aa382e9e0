-- _refused_at: when a request was refused, as a receiver's clock said; p_now for what no clock says, and no client could read.
create function redrive._refused_at(p_at timestamptz, p_now timestamptz) returns timestamptz
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case when p_at >= '1970-01-01 00:00:00+00' and p_at <= p_now + interval '1 day' then p_at else p_now end
$$;
revoke all on function redrive._refused_at(timestamptz, timestamptz) from public;
