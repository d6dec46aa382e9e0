-- _measured: everything that is measured of the queues, one row a queue: its numbers (g), and its gauges by name (gauges). Waits for no
-- lock longer than a quarter of a second; a queue that cannot be read has its reason in `problem`, and breaks no other. locked: it could
-- be read another time. What the workers counted is known even then.
create function redrive._measured(p_queue text)
returns table (queue text, g jsonb, gauges jsonb, problem text, locked boolean, done bigint, failed bigint, dead bigint, workers integer,
               last_seen timestamptz, inflow double precision, outflow double precision, tries bigint, failures bigint)
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '250ms'
as $$
#variable_conflict use_column
declare
    q redrive.queue;
    v_now timestamptz := redrive.clock();
begin
    for q in select * from redrive.queue r where p_queue is null or r.queue = p_queue order by r.queue loop
        queue := q.queue; g := null; problem := null; locked := false;
        select t.done, t.failed, t.dead, t.workers, t.last_seen into done, failed, dead, workers, last_seen from redrive._totals(q.queue, v_now) t;
        begin
            g := to_jsonb(redrive._gauges(q));
            select r.inflow, r.outflow, r.tries, r.failures into inflow, outflow, tries, failures
              from redrive._rates(q.queue, v_now, (g ->> 'sent')::bigint, done, failed, dead, (g ->> 'live')::bigint) r;
            gauges := redrive._queue_values(q, g, workers, inflow, outflow, tries, failures, v_now);
        exception when lock_not_available then
            g := null; locked := true; problem := 'another session has locked its tables';
        when others then
            g := null; problem := sqlerrm;
        end;
        if g is null then
            select r.inflow, r.outflow, r.tries, r.failures into inflow, outflow, tries, failures
              from redrive._rates(q.queue, v_now, null, done, failed, dead, null) r;
            gauges := redrive._queue_values(q, null, workers, inflow, outflow, tries, failures, v_now);
        end if;
        return next;
    end loop;
end
$$;
revoke all on function redrive._measured(text) from public;
