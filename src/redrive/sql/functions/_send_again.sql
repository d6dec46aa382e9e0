-- _send_again: the locked dead letters leave for the queue they came from, and are kept in the dead-letter archive as redriven.
create function redrive._send_again(q redrive.queue, p_dead bigint[], p_patch jsonb, p_patched boolean, out dead bigint[], out new bigint[])
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
    v_keys text[];
    v_from bigint[];
    v_headers text := '(case jsonb_typeof(g.message -> ''headers'') when ''object'' then g.message -> ''headers'' else ''{}'' end
            - array[''x-redrive-credit'', ''x-redrive-settled'', ''x-redrive-isolated'', ''x-redrive-late''])
        || jsonb_build_object(''x-redrive-generation'', coalesce(substring(g.message ->> ''generation'' from ''^[0-9]{1,9}$'')::integer, 0) + 1,
                              ''x-redrive-origin'', coalesce(g.message -> ''origin'', g.message -> ''original_msg_id''))';
begin
    if p_dead is null then
        return;
    end if;
    -- The new id is taken first, so that the old letter and the new message can be told of each other in one statement.
    execute format($q$
        with gone as (
                 select g.msg_id, nextval(pg_get_serial_sequence('pgmq.%I', 'msg_id')) as new_id, g.message
                   from (select m.msg_id, m.message from pgmq.%I m where m.msg_id = any ($1) order by m.msg_id) g),
             sent as (
                 insert into pgmq.%I as m (msg_id, vt, message%s) overriding system value
                 select g.new_id, $2, case when $4 then (g.message -> 'payload') || $3 else g.message -> 'payload' end %s from gone g
                 returning m.msg_id, %s as key)
        select array_agg(g.msg_id), array_agg(g.new_id), array_agg(s.key), array_agg(substring(g.message ->> 'original_msg_id' from '^[0-9]{1,18}$')::bigint)
          from gone g join sent s on s.msg_id = g.new_id $q$,
        'q_' || q.queue, 'q_' || q.queue || '_dlq', 'q_' || q.queue,
        case when q.has_headers then ', headers' else '' end, case when q.has_headers then ', ' || v_headers else '' end,
        redrive._part(q, 'key'))
       into dead, new, v_keys, v_from using p_dead, v_now, p_patch, p_patched;
    if q.inbox then
        perform redrive._renew_events(q, dead, new);
    end if;
    insert into redrive.redriven (queue, msg_id, from_msg, dead_id, at)
         select q.queue, r.new, r.from_msg, r.dead, v_now from unnest(new, v_from, dead) r(new, from_msg, dead)
    on conflict (queue, msg_id) do update set from_msg = excluded.from_msg, dead_id = excluded.dead_id, at = excluded.at;
    perform redrive._close_dead(q, p_dead, 'redriven');
    perform redrive._remember_sent(q.queue, k.key, k.id) from unnest(v_keys, new) k(key, id) where k.key is not null;
    perform redrive._wake(q.queue);
end
$$;
revoke all on function redrive._send_again(redrive.queue, bigint[], jsonb, boolean) from public;
