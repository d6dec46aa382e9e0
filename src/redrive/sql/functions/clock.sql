-- clock: the only clock redrive asks. A test database replaces this function to move time.
-- part: send, work, operate, read
create function redrive.clock() returns timestamptz
language sql volatile parallel safe set search_path = ''
as $$ select clock_timestamp() $$;
revoke all on function redrive.clock() from public;
