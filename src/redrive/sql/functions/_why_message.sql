-- _why_message: what the tables of a queue say of one message, without its payload; null where neither has it.
-- state: ready, running, waiting (its time has not come), parked (budget spent, no dead-letter queue) or archived.
-- claimed_at: when its last delivery began, where pgmq keeps that.
-- reported: its last delivery was reported or given back. Where pgmq keeps no headers (1.4.4) only a failed one is known to be.
create function redrive._why_message(q redrive.queue, p_id bigint, p_now timestamptz) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_found jsonb;
    v_ahead bigint;
    v_common text := format($q$'read_ct', m.read_ct, 'attempts', %s, 'given_back', %s, 'enqueued_at', m.enqueued_at, 'key', %s, 'generation', %s,
                               'origin', %s, 'event', %s, 'trace', %s$q$,
        redrive._part(q, 'attempt'), redrive._part(q, 'credit'), redrive._part(q, 'key'), redrive._part(q, 'generation'), redrive._part(q, 'origin'),
        case when q.has_headers then redrive._part(q, 'event') else 'null::uuid' end,
        case when q.has_headers then 'redrive._trace(m.headers)' else 'null::text' end);
begin
    execute format($q$
        select jsonb_build_object(%s, 'due_at', m.vt, 'claimed_at', %s, 'isolated', %s, 'reported', r.reported, 'state',
                   case when m.vt <= $2 then 'ready'
                        when m.read_ct > 0 and not r.reported then 'running'
                        when m.read_ct > 0 and %s >= $3 and $4 then 'parked' else 'waiting' end)
          from pgmq.%I m,
               lateral (select m.read_ct = 0 or %s or exists (select from redrive.attempt a where a.queue = $5 and a.msg_id = m.msg_id and a.read_ct = m.read_ct)
                                as reported) r
         where m.msg_id = $1 $q$,
        v_common, case when q.has_last_read_at then 'm.last_read_at' else 'null::timestamptz' end, redrive._part(q, 'isolated'), redrive._part(q, 'attempt'), 'q_' || q.queue,
        case when q.has_headers then format('m.read_ct <= %s', redrive._part(q, 'settled')) else 'false' end)
       into v_found using p_id, p_now, q.max_attempts, to_regclass(format('pgmq.%I', 'q_' || q.queue || '_dlq')) is null, q.queue;
    if v_found ->> 'state' = 'ready' then
        -- Along the index on vt, and never past ten thousand.
        execute format('select count(*) from (select from pgmq.%I m where m.vt < $1 order by m.vt limit 10000) m', 'q_' || q.queue)
           into v_ahead using (v_found ->> 'due_at')::timestamptz;
        return v_found || jsonb_build_object('ahead', v_ahead);
    elsif v_found is not null then
        return v_found;
    end if;
    execute format($q$
        select jsonb_build_object(%s, 'archived_at', m.archived_at, 'outcome', %s, 'duration', %s, 'state', 'archived')
          from pgmq.%I m where m.msg_id = $1 $q$,
        v_common,
        case when redrive._has_column(to_regclass(format('pgmq.%I', 'a_' || q.queue)), 'outcome') then 'm.outcome' else 'null::text' end,
        case when redrive._has_column(to_regclass(format('pgmq.%I', 'a_' || q.queue)), 'duration') then 'm.duration' else 'null::float8' end,
        'a_' || q.queue)
       into v_found using p_id;
    return v_found;
end
$$;
revoke all on function redrive._why_message(redrive.queue, bigint, timestamptz) from public;
