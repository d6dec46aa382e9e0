-- _sound: a time that every reader can read; null for infinity and the like, as if nobody had computed it.
create function redrive._sound(p_time timestamptz) returns timestamptz
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case when p_time between '1970-01-01 00:00:00Z' and '9999-01-01 00:00:00Z' then p_time end
$$;
revoke all on function redrive._sound(timestamptz) from public;
