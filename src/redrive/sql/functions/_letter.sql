-- _letter: the newest dead letter of a message, or one by its own id: state waiting (in the dead-letter queue), redriven or
-- discarded, with what it tells of the message (message) and its failed attempts. p_since: when the message died, which spares
-- looking through older letters.
create function redrive._letter(q redrive.queue, p_msg_id bigint, p_dead_id bigint, p_since timestamptz) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_dlq text := q.queue || '_dlq';
    v_dead bigint := coalesce(p_dead_id, (select max(r.dead_id) from redrive.redriven r where r.queue = q.queue and r.from_msg = p_msg_id));
    v_state text;
    v_which text := case when v_dead is null then 'n.id = $2' else 'm.msg_id = $1' end;
    v_sql text := $q$
        select jsonb_build_object('dead_id', m.msg_id, 'state', %s, 'at', %s, 'msg_id', n.id, 'reason', m.message ->> 'reason',
                   'dead_at', coalesce(redrive._time(m.message ->> 'dead_lettered_at'), redrive._time(m.enqueued_at::text), redrive.clock()), 'error', m.message ->> 'error',
                   'failures', (select coalesce(jsonb_agg(f - 'traceback'), '[]') from jsonb_array_elements(
                        case jsonb_typeof(m.message -> 'failures') when 'array' then m.message -> 'failures' else '[]' end) f where jsonb_typeof(f) = 'object'),
                   'message', jsonb_build_object('state', 'archived', 'outcome', 'dead', 'read_ct', n.read_ct,
                        'attempts', coalesce(n.attempts, n.read_ct), 'enqueued_at', redrive._time(m.message ->> 'enqueued_at'),
                        'archived_at', redrive._time(m.message ->> 'dead_lettered_at'), 'key', m.message ->> 'key',
                        'generation', coalesce(n.generation, 0), 'origin', coalesce(n.origin, n.id),
                        'event', substring(m.message -> 'headers' ->> 'x-redrive-event' from '^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$'),
                        'trace', redrive._trace(m.message -> 'headers')))
          from pgmq.%I m, lateral (
                    select substring(m.message ->> 'original_msg_id' from '^[0-9]{1,18}$')::bigint as id,
                           substring(m.message ->> 'origin' from '^[0-9]{1,18}$')::bigint as origin,
                           substring(m.message ->> 'read_ct' from '^[0-9]{1,9}$')::integer as read_ct,
                           substring(m.message ->> 'attempts' from '^[0-9]{1,9}$')::integer as attempts,
                           substring(m.message ->> 'generation' from '^[0-9]{1,9}$')::integer as generation) n
         where %s order by m.msg_id desc limit 1 $q$;
    v_found jsonb;
begin
    if to_regclass(format('pgmq.%I', 'q_' || v_dlq)) is not null then
        execute format(v_sql, '''waiting''', 'null::timestamptz', 'q_' || v_dlq, v_which) into v_found using v_dead, p_msg_id;
    end if;
    if v_found is null and to_regclass(format('pgmq.%I', 'a_' || v_dlq)) is not null then
        v_state := case when redrive._has_column(to_regclass(format('pgmq.%I', 'a_' || v_dlq)), 'outcome') then 'm.outcome' else '''archived''' end;
        execute format(v_sql, v_state, 'm.archived_at', 'a_' || v_dlq,
                       v_which || case when v_dead is null then ' and m.archived_at >= coalesce($3, ''-infinity'')' else '' end)
           into v_found using v_dead, p_msg_id, p_since;
    end if;
    return v_found;
end
$$;
revoke all on function redrive._letter(redrive.queue, bigint, bigint, timestamptz) from public;
