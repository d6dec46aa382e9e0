-- schedules: every schedule, and since when the next tick of one that is not paused has been due (lag_sec; null when it is
-- not due). One whose next tick nobody has computed lags since it was declared, changed or resumed.
-- seen_at: when a process that declares it last looked.
-- part: operate, read
create function redrive.schedules()
returns table (name text, queue text, cron text, every_sec numeric, tz text, missed text, overlap text, paused boolean, next_at timestamptz,
               lag_sec double precision, last_tick timestamptz, last_msg_id bigint, last_outcome text, declared_at timestamptz,
               seen_at timestamptz, waiting bigint, payload jsonb, now timestamptz)
language sql security definer set search_path = ''
as $$
    with c as materialized (select redrive.clock() as now)
    select s.name, s.queue, s.cron, s.every_sec, s.tz, s.missed, s.overlap, s.paused, redrive._sound(s.next_at),
           case when not s.paused and coalesce(redrive._sound(s.next_at), s.base_at) < c.now
                then extract(epoch from c.now - coalesce(redrive._sound(s.next_at), s.base_at))::double precision end,
           s.last_tick, s.last_msg_id, s.last_outcome, s.declared_at, s.seen_at,
           (select count(*) from redrive.schedule_tick t where t.name = s.name and t.outcome = 'waiting'), s.payload, c.now
      from redrive.schedule s, c
     order by s.name
$$;
revoke all on function redrive.schedules() from public;
