-- dead_letters: a page of a queue's dead letters in the order of their ids, after p_after. Without a queue: of every queue,
-- p_limit each. An envelope written by hand after the article's recipe reads as well, with what it lacks null.
-- part: operate, read
create function redrive.dead_letters(p_queue text default null, p_after bigint default null, p_limit integer default 100)
returns table (queue text, dead_id bigint, original_msg_id bigint, read_ct integer, enqueued_at timestamptz, dead_lettered_at timestamptz,
               payload jsonb, attempts integer, reason text, error text, failures jsonb, headers jsonb, key text, generation integer, origin bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_queue text;
begin
    if p_limit is null or p_limit < 1 then
        perform redrive._refuse(format('limit is %s; it must be a whole number >= 1', coalesce(p_limit::text, 'null')));
    elsif p_queue is not null and not exists (select from redrive.queue q where q.queue = p_queue) then
        perform redrive._no_queue(p_queue);
    end if;
    for v_queue in select q.queue from redrive.queue q where p_queue is null or q.queue = p_queue order by q.queue loop
        continue when to_regclass(format('pgmq.%I', 'q_' || v_queue || '_dlq')) is null;
        for queue, dead_id, original_msg_id, read_ct, enqueued_at, dead_lettered_at, payload, attempts, reason, error, failures, headers,
            key, generation, origin in execute format($q$
            select $1, m.msg_id, n.original_msg_id, n.read_ct, redrive._time(m.message ->> 'enqueued_at'),
                   coalesce(redrive._time(m.message ->> 'dead_lettered_at'), redrive._time(m.enqueued_at::text), redrive.clock()), m.message -> 'payload', coalesce(n.attempts, n.read_ct),
                   m.message ->> 'reason', m.message ->> 'error', nullif(m.message -> 'failures', 'null'), nullif(m.message -> 'headers', 'null'),
                   m.message ->> 'key', coalesce(n.generation, 0), coalesce(n.origin, n.original_msg_id)
              from (select * from pgmq.%I m where m.msg_id > coalesce($2, 0) order by m.msg_id limit $3) m,
                   lateral (select substring(m.message ->> 'original_msg_id' from '^[0-9]{1,18}$')::bigint as original_msg_id,
                                   substring(m.message ->> 'origin' from '^[0-9]{1,18}$')::bigint as origin,
                                   substring(m.message ->> 'read_ct' from '^[0-9]{1,9}$')::integer as read_ct,
                                   substring(m.message ->> 'attempts' from '^[0-9]{1,9}$')::integer as attempts,
                                   substring(m.message ->> 'generation' from '^[0-9]{1,9}$')::integer as generation) n
             order by m.msg_id $q$, 'q_' || v_queue || '_dlq')
          using v_queue, p_after, p_limit
        loop
            return next;
        end loop;
    end loop;
end
$$;
revoke all on function redrive.dead_letters(text, bigint, integer) from public;
