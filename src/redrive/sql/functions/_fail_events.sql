-- _fail_events: the last failed attempt of these messages stands on their events. The caller holds the messages' rows.
create function redrive._fail_events(q redrive.queue, p_ids bigint[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    execute format($q$
        with m as materialized (select m.msg_id, %s as event from pgmq.%I m where m.msg_id = any ($1))
        update redrive.webhook_event e set attempts = f.attempt, last_error = f.error
          from m cross join lateral (select a.attempt, concat_ws(': ', a.error_type, a.error) as error from redrive.attempt a
                               where a.queue = $2 and a.msg_id = m.msg_id order by a.read_ct desc limit 1) f
         where e.id = m.event and e.msg_id = m.msg_id and e.queue = $2 and (e.attempts, e.last_error) is distinct from (f.attempt, f.error) $q$,
        redrive._part(q, 'event'), 'q_' || q.queue)
      using p_ids, q.queue;
end
$$;
revoke all on function redrive._fail_events(redrive.queue, bigint[]) from public;
