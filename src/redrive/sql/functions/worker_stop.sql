-- worker_stop: this worker has drained: it waits no more, holds no single flight, and its counters join the sums of the gone.
-- p_visitor: it came for a while and will come again, as a tick does: its counters join the row of that name, which lives until
-- two and a half times what lies between two visits have passed (_alive), so that a queue between two ticks is not unattended.
-- part: work
create function redrive.worker_stop(p_worker text, p_visitor text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    update redrive.lease l set lease_until = redrive.clock(), holder = null where l.holder = p_worker and l.name like 'queue:%';
    with gone as (
        delete from redrive.worker w
         where p_worker <> '' and (w.worker = p_worker or starts_with(w.worker, p_worker || '#')) returning *)
    insert into redrive.worker as w (queue, worker, started_at, last_seen, claimed, done, failed, dead, given_back)
         select g.queue, coalesce(p_visitor, ''), min(g.started_at), max(g.last_seen), sum(g.claimed), sum(g.done), sum(g.failed), sum(g.dead),
                sum(g.given_back)
           from gone g group by g.queue order by g.queue
    on conflict (queue, worker) do update
        set last_seen = excluded.last_seen, claimed = w.claimed + excluded.claimed, done = w.done + excluded.done,
            failed = w.failed + excluded.failed, dead = w.dead + excluded.dead, given_back = w.given_back + excluded.given_back,
            every_sec = case when w.worker <> '' and excluded.last_seen - w.last_seen between '0' and '4 hours'
                             then extract(epoch from excluded.last_seen - w.last_seen) end;
end
$$;
revoke all on function redrive.worker_stop(text, text) from public;
