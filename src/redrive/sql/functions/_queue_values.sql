-- _queue_values: the gauges of one queue, by name, from what was measured of it; all null where it could not be read.
-- attempts_left only where there are three attempts at least: with two, every first failure would be the last but one.
-- failure_rate: nothing failed is 0; of fewer than ten attempts nothing is said.
create function redrive._queue_values(q redrive.queue, g jsonb, p_workers integer, p_inflow double precision, p_outflow double precision,
                                      p_tries bigint, p_failures bigint, p_now timestamptz) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select jsonb_object_agg(v.gauge, v.value) from (
        select k.key as gauge, (g ->> k.key)::double precision as value
          from unnest(array['ready', 'delayed', 'in_flight', 'dead', 'parked', 'max_attempt', 'archive_rows', 'archive_bytes', 'dead_tuples']) k(key)
        union all
        select 'oldest_ready_age_sec', case when g is not null then coalesce((g ->> 'oldest_ready_age_sec')::double precision, 0) end
        union all
        select 'attempts_left', case when g is not null then greatest(q.max_attempts - (g ->> 'failed')::bigint, 0) end where q.max_attempts >= 3
        union all
        select 'unattended', case when q.paused or p_workers > 0 then 0 else (g ->> 'ready')::double precision end
        union all
        select 'last_done_age_sec', redrive._age(p_now, (g ->> 'last_done_at')::timestamptz)
        union all
        values ('workers', p_workers::double precision), ('inflow_per_sec', p_inflow), ('outflow_per_sec', p_outflow),
               ('failure_rate', case when p_failures = 0 then 0 when p_tries >= 10 then p_failures::double precision / p_tries end),
               ('drain_sec', case when (g ->> 'ready')::bigint = 0 then 0
                                  when p_outflow > p_inflow then (g ->> 'ready')::bigint / (p_outflow - p_inflow) end)) v
$$;
revoke all on function redrive._queue_values(redrive.queue, jsonb, integer, double precision, double precision, bigint, bigint, timestamptz) from public;
