-- _fold_workers: workers that were not seen since join the sums of the gone, as worker_stop does for one that says goodbye.
-- Never one that lives: seen within a minute.
create function redrive._fold_workers(p_queue text, p_before timestamptz, p_batch integer) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
as $$
declare
    v_done bigint;
begin
    with old as (
        select w.queue, w.worker from redrive.worker w
         where w.worker <> '' and w.last_seen < least(p_before, redrive.clock() - interval '1 minute') and (p_queue is null or w.queue = p_queue)
         order by w.queue, w.worker limit p_batch for update skip locked),
    gone as (delete from redrive.worker w using old o where w.queue = o.queue and w.worker = o.worker returning w.*),
    summed as (
        insert into redrive.worker as w (queue, worker, started_at, last_seen, claimed, done, failed, dead, given_back)
             select g.queue, '', min(g.started_at), max(g.last_seen), sum(g.claimed), sum(g.done), sum(g.failed), sum(g.dead), sum(g.given_back)
               from gone g group by g.queue order by g.queue
        on conflict (queue, worker) do update
            set last_seen = greatest(w.last_seen, excluded.last_seen), claimed = w.claimed + excluded.claimed, done = w.done + excluded.done,
                failed = w.failed + excluded.failed, dead = w.dead + excluded.dead, given_back = w.given_back + excluded.given_back)
    select count(*) into v_done from gone;
    return v_done;
end
$$;
revoke all on function redrive._fold_workers(text, timestamptz, integer) from public;
