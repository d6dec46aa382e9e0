-- workers: who works on which queue, as far as it was seen. alive: within a minute, or, of one that
-- comes by now and then (read_with_dlq in a cron job), within two and a half of its intervals (_alive). worker ''
-- keeps the sums of those that are gone.
-- running: jobs at this moment, null where the worker does not say.
-- part: operate, read
create function redrive.workers()
returns table (queue text, worker text, started_at timestamptz, last_seen timestamptz, age_sec double precision, alive boolean, running integer,
               claimed bigint, done bigint, failed bigint, dead bigint, given_back bigint)
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    with now as materialized (select redrive.clock() as at),
         w as (select w.*, regexp_replace(w.worker, '#[0-9]+$', '') as name, redrive._alive(w, n.at) as lives from redrive.worker w cross join now n)
    select w.queue, w.name, min(w.started_at), max(w.last_seen), extract(epoch from n.at - max(w.last_seen))::double precision,
           bool_or(w.lives), max(w.running)::integer,
           sum(w.claimed)::bigint, sum(w.done)::bigint, sum(w.failed)::bigint, sum(w.dead)::bigint, sum(w.given_back)::bigint
      from w cross join now n group by w.queue, w.name, n.at order by w.queue, w.name
$$;
revoke all on function redrive.workers() from public;
