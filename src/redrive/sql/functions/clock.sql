-- clock: the only clock redrive asks. A test database replaces this function to move time.
-- No `set` clause, so that it is inlined: a settle asks it three times.
-- part: send, work, operate, read
create function redrive.clock() returns timestamptz
language sql volatile parallel safe
as $$ select pg_catalog.clock_timestamp() $$;
revoke all on function redrive.clock() from public;
