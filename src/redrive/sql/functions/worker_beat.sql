-- worker_beat: this worker lives, also where it is full and claims nothing. Of each of its queues: how many jobs run, and which
-- messages it holds (p_held: ids by queue, a thousand of each are kept). p_concurrency is of the whole process.
-- Never waits: where a handler's transaction holds the worker's row, only that it was seen is kept, in a row beside it.
-- part: work
create function redrive.worker_beat(p_worker text, p_queues text[], p_running integer[], p_held jsonb, p_concurrency integer default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
    v_queue text;
    v_running integer;
begin
    if p_worker is null or p_worker = '' or p_queues is null or cardinality(p_queues) is distinct from cardinality(p_running)
       or jsonb_typeof(coalesce(p_held, '{}')) <> 'object' then
        perform redrive._refuse('worker_beat takes a worker''s name, its queues, as many numbers of running jobs, and an object of held ids by queue');
    end if;
    -- In one order, and only queues there are: one that was dropped must not come back as a worker's.
    for v_queue, v_running in
        select q.queue, max(u.running) from unnest(p_queues, p_running) u(queue, running) join redrive.queue q on q.queue = u.queue
         group by q.queue order by q.queue
    loop
        if redrive._count(v_queue, p_worker, 0, 0, 0, 0, 0) = p_worker then
            update redrive.worker w
               set running = greatest(coalesce(v_running, 0), 0), concurrency = p_concurrency, held_at = v_now,
                   held = array(select h::bigint from jsonb_array_elements_text(case jsonb_typeof(p_held -> v_queue) when 'array' then p_held -> v_queue else '[]' end) h
                                 where h ~ '^[0-9]{1,18}$' limit 1000)
             where w.queue = v_queue and w.worker = p_worker;
        end if;
    end loop;
end
$$;
revoke all on function redrive.worker_beat(text, text[], integer[], jsonb, integer) from public;
