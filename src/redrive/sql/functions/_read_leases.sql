-- _read_leases: a queue's lease whose holder is not seen though the lease runs on: for how long. One that was taken by hand says nothing of
-- its holder: whether that one still renews it, or is gone, its time tells.
create function redrive._read_leases(p_now timestamptz) returns setof redrive._reading
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select 'lease_stuck_sec', l.name,
           case when l.lease_until <= p_now then 0 else extract(epoch from p_now - greatest(w.last_seen, l.acquired_at)) end,
           jsonb_build_object(
               'holder', coalesce(l.holder, 'somebody without a name'),
               'why', 'who was last seen ' || coalesce(redrive._span(extract(epoch from p_now - w.last_seen)) || ' ago', 'never')
                      || '; it runs for ' || redrive._span(extract(epoch from l.lease_until - p_now)) || ' more, and nobody else gets it')
      from redrive.lease l
      join redrive.queue s on l.name = 'queue:' || s.queue
      left join lateral (select max(w.last_seen) as last_seen from redrive.worker w
                          where w.queue = s.queue and (w.worker = l.holder or starts_with(w.worker, l.holder || '#'))) w on true
     order by l.lease_until desc limit 500
$$;
revoke all on function redrive._read_leases(timestamptz) from public;
