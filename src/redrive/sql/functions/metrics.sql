-- metrics: one row a queue, cheap at millions of rows: nothing is counted past 10,000 (`more` says that a count stopped there).
-- ready may be claimed now; delayed waits for its time; in_flight was handed out and not reported; parked is over its budget
-- with no dead-letter queue to go to. oldest_ready_age_sec: since when the oldest ready message has been due.
-- A queue that cannot be read has its reason in `problem`, and breaks no other.
-- part: operate, read
create function redrive.metrics(p_queue text default null)
returns table (queue_name text, ready bigint, delayed bigint, in_flight bigint, dead bigint, parked bigint, oldest_ready_age_sec double precision,
               max_attempt integer, last_done_at timestamptz, paused boolean, more boolean, problem text)
language plpgsql security definer set search_path = ''
as $$
#variable_conflict use_column
declare
    q redrive.queue;
begin
    if p_queue is not null and not exists (select from redrive.queue r where r.queue = p_queue) then
        perform redrive._no_queue(p_queue);
    end if;
    for q in select * from redrive.queue r where p_queue is null or r.queue = p_queue order by r.queue loop
        begin
            return query select q.queue, m.ready, m.delayed, m.in_flight, m.dead, m.parked, m.oldest_ready_age_sec, m.max_attempt, m.last_done_at, q.paused, m.more, null::text
                           from redrive._gauges(q) m;
        exception when others then
            return query select q.queue, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::double precision, null::integer,
                                null::timestamptz, q.paused, null::boolean, sqlerrm;
        end;
    end loop;
end
$$;
revoke all on function redrive.metrics(text) from public;
