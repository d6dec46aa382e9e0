-- inbox_status: one row a source: was everything handled, or did nothing ever arrive? Each status is counted along one index to
-- 10,000 (`more` says that a count stopped there), so it stays cheap at millions of events; received is their sum.
-- refused: how many requests by reason, ever. last_processed_at is that of the newest 1,000 processed events.
-- A source that is named is answered even where nothing is known of it.
-- part: operate, read
create function redrive.inbox_status(p_source text default null)
returns table (source text, received bigint, waiting bigint, processed bigint, failed bigint, ignored bigint, more boolean, refused jsonb,
               last_received_at timestamptz, last_processed_at timestamptz, oldest_waiting_at timestamptz, last_refused_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query execute $q$
        select s.source, n.waiting + n.processed + n.failed + n.ignored, n.waiting, n.processed, n.failed, n.ignored,
               greatest(n.waiting, n.processed, n.failed, n.ignored) >= 10000, coalesce(r.refused, '{}'), n.last_received_at,
               (select max(p.settled_at) from (select e.settled_at from redrive.webhook_event e
                                                where e.source = s.source and e.status = 'processed' order by e.received_at desc limit 1000) p),
               n.oldest_waiting_at, r.last_at
          from unnest($1) s(source)
          cross join lateral (
              select max(c.total) filter (where t.status = 'received') as waiting, max(c.total) filter (where t.status = 'processed') as processed,
                     max(c.total) filter (where t.status = 'failed') as failed, max(c.total) filter (where t.status = 'ignored') as ignored,
                     max(l.received_at) as last_received_at, min(o.received_at) filter (where t.status = 'received') as oldest_waiting_at
                from unnest(array['received', 'processed', 'failed', 'ignored']) t(status)
                cross join lateral (select count(*) as total from (select from redrive.webhook_event e
                                     where e.source = s.source and e.status = t.status order by e.received_at limit 10000) e) c
                left join lateral (select e.received_at from redrive.webhook_event e
                                    where e.source = s.source and e.status = t.status order by e.received_at desc limit 1) l on true
                left join lateral (select e.received_at from redrive.webhook_event e
                                    where e.source = s.source and e.status = t.status order by e.received_at limit 1) o on true) n
          cross join lateral (
              select jsonb_object_agg(c.reason, c.total) as refused, max(c.last_at) as last_at
                from (select w.reason, sum(w.total) as total, max(w.last_at) as last_at from redrive.webhook_count w
                       where w.source = s.source group by w.reason) c) r
         order by s.source $q$
      using case when p_source is null then array(select redrive._sources()) else array[p_source] end;
end
$$;
revoke all on function redrive.inbox_status(text) from public;
