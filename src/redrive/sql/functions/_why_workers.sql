-- _why_workers: who works a queue: the twenty seen last, whoever holds the message first; how many of them live
-- (_alive), how many jobs they run; and when the last of those that ended was seen. A worker's rows beside its own are summed.
create function redrive._why_workers(p_queue text, p_id bigint, p_now timestamptz) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp
as $$
    with each as (
        select regexp_replace(w.worker, '#[0-9]+$', '') as worker, max(w.last_seen) as last_seen, sum(w.running) as running,
               max(w.concurrency) as concurrency, bool_or(redrive._alive(w, p_now)) as alive, max(w.held_at) filter (where w.held @> array[p_id]) as held_at
          from redrive.worker w where w.queue = p_queue and w.worker <> '' group by 1)
    select jsonb_build_object(
        'workers', coalesce((select jsonb_agg(to_jsonb(l) order by l.held_at desc nulls last, l.last_seen desc)
                               from (select * from each order by held_at desc nulls last, last_seen desc limit 20) l), '[]'),
        'alive', (select count(*) from each l where l.alive), 'busy', (select coalesce(sum(l.running), 0) from each l where l.alive),
        'gone_at', (select w.last_seen from redrive.worker w where w.queue = p_queue and w.worker = ''))
$$;
revoke all on function redrive._why_workers(text, bigint, timestamptz) from public;
