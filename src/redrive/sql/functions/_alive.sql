-- _alive: does this worker live? One that says so itself: seen within a minute. One that comes by now and then (read_with_dlq in a
-- cron job): seen within two and a half times what lay between its last two visits, four hours at most. Nobody is seen in the future:
-- that was a clock that ran ahead.
create function redrive._alive(w redrive.worker, p_now timestamptz) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select w.worker <> '' and w.last_seen <= p_now + interval '60 seconds'
           and w.last_seen > p_now - make_interval(secs => greatest(60, 2.5 * least(coalesce(w.every_sec, 0), 5760)))
$$;
revoke all on function redrive._alive(redrive.worker, timestamptz) from public;
