-- clock: the only clock redrive asks. A test database replaces this function to move time.
-- In plpgsql: with a search path of its own, as every function has, one in SQL would take half as long again.
-- part: send, work, operate, read
create function redrive.clock() returns timestamptz
language plpgsql volatile parallel safe set search_path = pg_catalog, pg_temp
as $$ begin return clock_timestamp(); end $$;
revoke all on function redrive.clock() from public;
