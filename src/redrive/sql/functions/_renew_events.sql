-- _renew_events: these dead letters were sent again as these messages: their events are received again, a generation on.
create function redrive._renew_events(q redrive.queue, p_dead bigint[], p_new bigint[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    execute format($q$
        update redrive.webhook_event e
           set status = 'received', msg_id = n.new_id, generation = e.generation + 1, attempts = 0, last_error = null, settled_at = null
          from unnest($1, $2) n(dead_id, new_id)
          join (select d.msg_id as dead_id, d.message ->> 'original_msg_id' as original, m.event
                  from pgmq.%I d, lateral (select %s as event from (select d.message -> 'headers' as headers) m) m
                 where d.msg_id = any ($1)) l on l.dead_id = n.dead_id
         where e.id = l.event and e.msg_id::text = l.original and e.queue = $3 $q$,
        'q_' || q.queue || '_dlq', redrive._part(q, 'event'))
      using p_dead, p_new, q.queue;
end
$$;
revoke all on function redrive._renew_events(redrive.queue, bigint[], bigint[]) from public;
