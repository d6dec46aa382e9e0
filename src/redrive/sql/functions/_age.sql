-- _age: seconds since then, a hundred years at most: whoever writes to pgmq's tables may have written infinity.
create function redrive._age(p_now timestamptz, p_since timestamptz) returns double precision
language sql immutable set search_path = pg_catalog, pg_temp
as $$ select extract(epoch from p_now - least(greatest(p_since, p_now - interval '100 years'), p_now + interval '100 years'))::double precision
        where p_since is not null $$;
revoke all on function redrive._age(timestamptz, timestamptz) from public;
