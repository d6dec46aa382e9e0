-- schedules: every schedule, and since when the next tick of one that is not paused has been due (lag_sec; null when it is
-- not due). One whose next tick nobody has computed lags since it was declared, changed or resumed; but for one of a job of pg_cron's,
-- which first looks when it is due, it is computed here.
-- seen_at: when a process that declares it last looked; now, where a job of pg_cron's looks after it.
-- part: operate, read
create function redrive.schedules()
returns table (name text, queue text, cron text, every_sec numeric, tz text, missed text, overlap text, paused boolean, next_at timestamptz,
               lag_sec double precision, last_tick timestamptz, last_msg_id bigint, last_outcome text, declared_at timestamptz,
               seen_at timestamptz, waiting bigint, payload jsonb, now timestamptz)
language sql security definer set search_path = pg_catalog, pg_temp
as $$
    with c as materialized (select redrive.clock() as now, redrive._cron_schedules() as by_cron),
    n as (select s.*, coalesce(redrive._sound(s.next_at), case when s.name = any (c.by_cron) then redrive._next_tick(s, s.base_at) end) as due_at,
                 case when s.name = any (c.by_cron) then c.now else s.seen_at end as looked_at, c.now
            from redrive.schedule s, c)
    select n.name, n.queue, n.cron, n.every_sec, n.tz, n.missed, n.overlap, n.paused, n.due_at,
           case when not n.paused and coalesce(n.due_at, n.base_at) < n.now
                then extract(epoch from n.now - coalesce(n.due_at, n.base_at))::double precision end,
           n.last_tick, n.last_msg_id, n.last_outcome, n.declared_at, n.looked_at,
           (select count(*) from redrive.schedule_tick t where t.name = n.name and t.outcome = 'waiting'), n.payload, n.now
      from n
     order by n.name
$$;
revoke all on function redrive.schedules() from public;
