-- metrics: one row a queue, cheap at millions of rows: nothing is counted past 10,000 (`more` says that a count stopped there), the
-- archive's rows and bytes and the dead tuples are the statistics'.
-- ready may be claimed now; delayed waits for its time; in_flight was handed out and not reported; parked is over its budget
-- with no dead-letter queue to go to. oldest_ready_age_sec: since when the oldest ready message has been due.
-- The rates are those of about the last five minutes, kept by check_queue_health: null where nobody calls it. failure_rate: of ten
-- attempts or more. drain_sec: until nothing is ready at this rate. workers: seen within a minute.
-- A queue that cannot be read has its reason in `problem`, and breaks no other.
-- part: operate, read
create function redrive.metrics(p_queue text default null)
returns table (queue_name text, ready bigint, delayed bigint, in_flight bigint, dead bigint, parked bigint, oldest_ready_age_sec double precision,
               max_attempt integer, last_done_at timestamptz, paused boolean, more boolean, problem text, inflow_per_sec double precision,
               outflow_per_sec double precision, failure_rate double precision, drain_sec double precision, archive_rows bigint,
               archive_bytes bigint, dead_tuples bigint, workers integer)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if p_queue is not null and not exists (select from redrive.queue r where r.queue = p_queue) then
        perform redrive._no_queue(p_queue);
    end if;
    return query
        select m.queue, (m.g ->> 'ready')::bigint, (m.g ->> 'delayed')::bigint, (m.g ->> 'in_flight')::bigint, (m.g ->> 'dead')::bigint,
               (m.g ->> 'parked')::bigint, (m.g ->> 'oldest_ready_age_sec')::double precision, (m.g ->> 'max_attempt')::integer,
               (m.g ->> 'last_done_at')::timestamptz, r.paused, (m.g ->> 'more')::boolean, m.problem, m.inflow, m.outflow,
               case when m.tries >= 10 then m.failures::double precision / m.tries end,
               case when m.outflow > m.inflow then (m.g ->> 'ready')::bigint / (m.outflow - m.inflow) end,
               (m.g ->> 'archive_rows')::bigint, (m.g ->> 'archive_bytes')::bigint, (m.g ->> 'dead_tuples')::bigint, m.workers
          from redrive._measured(p_queue) m join redrive.queue r on r.queue = m.queue order by m.queue;
end
$$;
revoke all on function redrive.metrics(text) from public;
