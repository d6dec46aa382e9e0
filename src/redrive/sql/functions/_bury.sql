-- _bury: messages whose rows the caller holds become dead letters with their whole history, in the caller's transaction.
-- No dead-letter queue: they are put back for five minutes and nothing else waits (they count as parked). Returns how many died.
-- p_error: why, where that is no failed attempt of theirs.
create function redrive._bury(q redrive.queue, p_ids bigint[], p_reasons text[], p_error text default null) returns integer
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
    v_buried integer;
begin
    if p_ids is null then
        return 0;
    elsif to_regclass(format('pgmq.%I', 'q_' || q.queue || '_dlq')) is null then
        execute format('update pgmq.%I m set vt = $2 + interval ''5 minutes'' %s where m.msg_id = any ($1)', 'q_' || q.queue,
                       case when q.has_headers
                            then format(', headers = %s || jsonb_build_object(''x-redrive-settled'', m.read_ct)', redrive._part(q, 'bag'))
                            else '' end)
          using p_ids, v_now;
        return 0;
    end if;
    execute format($q$
        insert into pgmq.%I (vt, message)
        select $3, jsonb_build_object(
                   'original_msg_id', m.msg_id, 'read_ct', m.read_ct, 'enqueued_at', m.enqueued_at, 'dead_lettered_at', $3,
                   'payload', m.message, 'attempts', %s, 'reason', r.reason, 'error', coalesce($5, f.error), 'failures', coalesce(f.failures, '[]'),
                   'headers', %s, 'key', %s,
                   'generation', %s, 'origin', %s)
          from pgmq.%I m
          join unnest($1, $2) r(id, reason) on r.id = m.msg_id
          left join lateral redrive._failures($4, m.msg_id) f on true
         where m.msg_id = any ($1)
         order by m.msg_id $q$,
        'q_' || q.queue || '_dlq', redrive._part(q, 'attempt'), redrive._part(q, 'headers'), redrive._part(q, 'key'),
        redrive._part(q, 'generation'), redrive._part(q, 'origin'), 'q_' || q.queue)
      using p_ids, p_reasons, v_now, q.queue, p_error;
    get diagnostics v_buried = row_count;
    perform redrive._finish(q, p_ids, 'dead', null);
    return v_buried;
end
$$;
revoke all on function redrive._bury(redrive.queue, bigint[], text[], text) from public;
