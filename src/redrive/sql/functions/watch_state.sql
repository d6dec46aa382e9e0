-- watch_state: one row: when the rules were evaluated last, what could not be read then, what fires, and whether alerts reach anybody.
-- checked_at null: never. delivery_failures: failed tries so far, of the sinks that are known.
-- part: work, operate, read
create function redrive.watch_state()
returns table (checked_at timestamptz, age_sec double precision, duration_sec double precision, problems jsonb, firing integer, pending integer,
               undelivered integer, delivery_failures bigint)
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select w.checked_at, extract(epoch from redrive.clock() - w.checked_at)::double precision, w.duration, w.problems,
           (select count(*)::integer from redrive.alert a where a.state = 'firing'), (select count(*)::integer from redrive.alert a where a.state = 'pending'),
           (select count(*)::integer from redrive.alert_delivery d where d.delivered_at is null and d.gave_up_at is null),
           (select coalesce(sum(s.failures), 0)::bigint from redrive.alert_sink s)
      from redrive.watch w
$$;
revoke all on function redrive.watch_state() from public;
