-- alert_sinks: where alerts are told: when a process that has the sink was seen last, what was delivered, how often it failed.
-- part: work, operate, read
create function redrive.alert_sinks()
returns table (sink text, kind text, seen_at timestamptz, age_sec double precision, delivered bigint, failures bigint, open integer, gave_up integer, last_error text)
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select s.name, s.kind, s.seen_at, extract(epoch from redrive.clock() - s.seen_at)::double precision, s.delivered, s.failures, d.open, d.gave_up, d.error
      from redrive.alert_sink s
      cross join lateral (
          select count(*) filter (where d.gave_up_at is null)::integer as open, count(d.gave_up_at)::integer as gave_up,
                 (array_agg(d.error order by d.id desc) filter (where d.error is not null))[1] as error
            from redrive.alert_delivery d where d.sink = s.name and d.delivered_at is null) d
     order by s.name
$$;
revoke all on function redrive.alert_sinks() from public;
