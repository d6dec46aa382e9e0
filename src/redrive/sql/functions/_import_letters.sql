-- _import_letters: the envelopes in these locked messages of another queue become dead letters of q. Kept is what they say, also what redrive
-- does not know; headers of redrive's own are not believed. Returns the new ids in the order of p_ids.
create function redrive._import_letters(q redrive.queue, p_from text, p_ids bigint[]) returns bigint[]
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_name constant text := 'q_' || lower(p_from);
    v_dlq constant text := 'q_' || q.queue || '_dlq';
    v_headers constant text := case when redrive._has_column(to_regclass(format('pgmq.%I', v_name)), 'headers') then 'm.headers' else 'null::jsonb' end;
    v_new bigint[];
begin
    -- The new ids are taken first, so that each can be told beside the one it came from.
    v_new := array(select nextval(pg_get_serial_sequence(format('pgmq.%I', v_dlq), 'msg_id')) from generate_series(1, cardinality(p_ids)));
    execute format($q$
        insert into pgmq.%I (msg_id, vt, message) overriding system value
        select m.new, $3, m.letter || jsonb_build_object(
                   'original_msg_id', substring(m.letter ->> 'original_msg_id' from '^[0-9]{1,18}$')::bigint,
                   'read_ct', coalesce(substring(m.letter ->> 'read_ct' from '^[0-9]{1,9}$')::integer, m.attempts),
                   'attempts', coalesce(m.attempts, substring(m.letter ->> 'read_ct' from '^[0-9]{1,9}$')::integer),
                   'enqueued_at', redrive._time(m.letter ->> 'enqueued_at'),
                   'dead_lettered_at', coalesce(redrive._time(m.letter ->> 'dead_lettered_at'), redrive._time(m.enqueued_at::text), $3),
                   'reason', case when m.letter ->> 'reason' in ('failed', 'crashed', 'rejected', 'malformed') then m.letter ->> 'reason' else 'failed' end,
                   'error', m.letter ->> 'error',
                   'failures', (select coalesce(jsonb_agg(f.failure order by f.n), '[]')
                                  from jsonb_array_elements(case jsonb_typeof(m.letter -> 'failures') when 'array' then m.letter -> 'failures' else '[]' end)
                                       with ordinality f(failure, n) where jsonb_typeof(f.failure) = 'object'),
                   'headers', (select jsonb_object_agg(h.name, h.value) from jsonb_each(case jsonb_typeof(m.headers) when 'object' then m.headers else '{}' end)
                                      h(name, value) where lower(h.name) not like 'x-redrive-%%'),
                   'key', %s,
                   'generation', coalesce(substring(m.letter ->> 'generation' from '^[0-9]{1,9}$')::integer, 0),
                   'origin', substring(coalesce(m.letter ->> 'origin', m.letter ->> 'original_msg_id') from '^[0-9]{1,18}$')::bigint,
                   'imported_from', jsonb_build_object('queue', $4, 'msg_id', m.msg_id))
          from (select i.id as msg_id, i.new, d.enqueued_at, d.message as letter, d.message -> 'payload' as message,
                       coalesce(nullif(d.message -> 'headers', 'null'), d.headers) as headers,
                       substring(d.message ->> 'attempts' from '^[0-9]{1,9}$')::integer as attempts
                  from unnest($1, $2) i(id, new) join (select m.msg_id, m.enqueued_at, m.message, %s as headers from pgmq.%I m) d on d.msg_id = i.id) m
         order by m.new $q$,
        v_dlq, case when q.key_field is null then 'null::text' else format('nullif(m.message ->> %L, '''')', q.key_field) end, v_headers, v_name)
      using p_ids, v_new, redrive.clock(), p_from;
    return v_new;
end
$$;
revoke all on function redrive._import_letters(redrive.queue, text, bigint[]) from public;
