-- _send_events_again: new messages for these events, in this order, from their records; they are received again, a generation on.
-- The caller holds the events' rows. The queue may have been made anew since: it is marked as an inbox again.
create function redrive._send_events_again(q redrive.queue, p_ids uuid[]) returns table (id uuid, msg_id bigint)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_large boolean;
begin
    if cardinality(p_ids) = 0 then
        return;
    end if;
    for id, msg_id in execute format($q$
        with again as (
                 select e.id, nextval(pg_get_serial_sequence('pgmq.%I', 'msg_id')) as new_id, e.message,
                        redrive._event_headers(e.id, octet_length(e.message::text) > 1000000)
                            || jsonb_build_object('x-redrive-generation', e.generation + 1, 'x-redrive-origin', e.first_id) as headers
                   from (select e.id, e.generation, redrive._event_message(e.event_id, e.type, e.payload) as message,
                                coalesce(%s, e.msg_id) as first_id
                           from unnest($1) with ordinality p(id, n) join redrive.webhook_event e on e.id = p.id
                           left join pgmq.%I m on m.msg_id = e.msg_id and %s = e.id
                          where e.id = any ($1) order by p.n) e),
             sent as (
                 insert into pgmq.%I (msg_id, vt, message, headers) overriding system value
                 select a.new_id, $2, a.message, a.headers from again a)
        update redrive.webhook_event e
           set status = 'received', msg_id = a.new_id, generation = e.generation + 1, attempts = 0, last_error = null, settled_at = null
          from again a where e.id = any ($1) and e.id = a.id
        returning e.id, e.msg_id $q$,
        'q_' || q.queue, redrive._part(q, 'origin'), 'a_' || q.queue, redrive._part(q, 'event'), 'q_' || q.queue)
      using p_ids, redrive.clock()
    loop
        return next;
    end loop;
    v_large := exists (select from redrive.webhook_event e
                        where e.id = any (p_ids) and octet_length(redrive._event_message(e.event_id, e.type, e.payload)::text) > 1000000);
    perform redrive._mark_inbox(q, v_large);
    if q.notify then
        perform redrive._wake(q.queue);
    end if;
end
$$;
revoke all on function redrive._send_events_again(redrive.queue, uuid[]) from public;
