-- message: one message as JSON, wherever it is: state ready, delayed, running, archived (with outcome) or dead, and its failed
-- attempts. Null when there is none. A dead letter is found by the id it had in the queue.
-- part: operate, read
create function redrive.message(p_queue text, p_msg_id bigint) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue := redrive._known(p_queue);
    v_found jsonb;
    v_now timestamptz := redrive.clock();
begin
    execute format($q$
        select jsonb_build_object('state', case when m.vt <= $2 then 'ready' when m.read_ct > %s then 'running' else 'delayed' end,
                   'msg_id', m.msg_id, 'read_ct', m.read_ct, 'attempts', %s, 'enqueued_at', m.enqueued_at, 'due_at', m.vt,
                   'key', %s, 'isolated', %s, 'headers', %s, 'message', m.message)
          from pgmq.%I m where m.msg_id = $1 $q$,
        redrive._part(q, 'settled'), redrive._part(q, 'attempt'), redrive._part(q, 'key'), redrive._part(q, 'isolated'), redrive._part(q, 'headers'), 'q_' || q.queue)
       into v_found using p_msg_id, v_now;
    if v_found is null and redrive._has_column(to_regclass(format('pgmq.%I', 'a_' || q.queue)), 'outcome') then
        execute format($q$
            select jsonb_build_object('state', case m.outcome when 'dead' then 'dead' else 'archived' end, 'outcome', m.outcome, 'duration', m.duration,
                       'msg_id', m.msg_id, 'read_ct', m.read_ct, 'attempts', %s, 'enqueued_at', m.enqueued_at, 'archived_at', m.archived_at,
                       'key', %s, 'headers', %s, 'message', m.message)
              from pgmq.%I m where m.msg_id = $1 $q$,
            redrive._part(q, 'attempt'), redrive._part(q, 'key'), redrive._part(q, 'headers'), 'a_' || q.queue)
           into v_found using p_msg_id;
    end if;
    if v_found is null and to_regclass(format('pgmq.%I', 'q_' || q.queue || '_dlq')) is not null then
        -- Died in a queue that keeps no archive: its letter is all there is.
        execute format($q$
            select jsonb_build_object('state', 'dead', 'outcome', 'dead', 'duration', null,
                       'msg_id', $1, 'read_ct', m.message -> 'read_ct', 'attempts', coalesce(nullif(m.message -> 'attempts', 'null'), m.message -> 'read_ct'),
                       'enqueued_at', m.message -> 'enqueued_at', 'archived_at', m.message -> 'dead_lettered_at',
                       'key', m.message -> 'key', 'headers', m.message -> 'headers', 'message', m.message -> 'payload')
              from pgmq.%I m where m.message ->> 'original_msg_id' = $1::text order by m.msg_id desc limit 1 $q$, 'q_' || q.queue || '_dlq')
           into v_found using p_msg_id;
    end if;
    return jsonb_build_object('queue', p_queue) || v_found || jsonb_build_object('failures', coalesce((
        select jsonb_agg(to_jsonb(a) - 'queue' - 'msg_id' order by a.read_ct) from redrive.attempt a where a.queue = p_queue and a.msg_id = p_msg_id), '[]'));
end
$$;
revoke all on function redrive.message(text, bigint) from public;
