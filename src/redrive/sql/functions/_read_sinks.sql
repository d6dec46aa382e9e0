-- _read_sinks: for how long alerts have not reached a sink: since its oldest open delivery, or since a process that has it was seen.
-- Three failed tries, and one given up within the day, count as six minutes at least. What a silence holds back does not count.
create function redrive._read_sinks(p_now timestamptz) returns setof redrive._reading
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select 'sink_trouble_sec', s.name, greatest(d.open_sec, case when d.tried or d.gave_up then 360 else 0 end, case when u.unseen > 600 then u.unseen else 0 end),
           jsonb_build_object('look', case when u.unseen > 600 then 'redrive alerts forget ' || s.name else 'redrive alerts list' end, 'why', concat_ws('; ',
               case when d.waiting > 0 then d.waiting || case when d.waiting = 1 then ' delivery waits' else ' deliveries wait' end || ', the oldest for ' || redrive._span(d.open_sec) end,
               case when d.gave_up then 'some were given up' end, 'the last error: ' || d.error,
               case when u.unseen > 600 then 'no process that has it was seen for ' || redrive._span(u.unseen) end))
      from redrive.alert_sink s
      cross join lateral (select extract(epoch from p_now - s.seen_at) as unseen) u
      cross join lateral (
          select count(*) filter (where o.open) as waiting, extract(epoch from p_now - min(o.at) filter (where o.open)) as open_sec,
                 coalesce(bool_or(o.open and o.attempts >= 3), false) as tried, coalesce(bool_or(o.gave_up_at > p_now - interval '1 day'), false) as gave_up,
                 (array_agg(o.error order by o.id desc) filter (where o.error is not null))[1] as error
            from (select d.*, d.delivered_at is null and d.gave_up_at is null as open from redrive.alert_delivery d
                   where d.sink = s.name and d.delivered_at is null and (d.gave_up_at is null or d.gave_up_at > p_now - interval '1 day')
                     and (d.event in ('resolved', 'test') or (redrive._silence_of(d.rule, d.subject, p_now)).id is null)
                   order by d.id limit 1000) o) d
     order by s.name limit 100
$$;
revoke all on function redrive._read_sinks(timestamptz) from public;
