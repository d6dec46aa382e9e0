-- _totals: what the workers of a queue have counted so far, those that are gone included; how many live (_alive),
-- and when one was seen last.
create function redrive._totals(p_queue text, p_now timestamptz, out done bigint, out failed bigint, out dead bigint, out workers integer, out last_seen timestamptz)
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select coalesce(sum(w.done), 0)::bigint, coalesce(sum(w.failed), 0)::bigint, coalesce(sum(w.dead), 0)::bigint,
           (count(distinct regexp_replace(w.worker, '#[0-9]+$', '')) filter (where redrive._alive(w, p_now)))::integer,
           max(w.last_seen)
      from redrive.worker w where w.queue = p_queue
$$;
revoke all on function redrive._totals(text, timestamptz) from public;
