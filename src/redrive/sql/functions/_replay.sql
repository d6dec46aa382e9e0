-- _replay: those of these events that belong to this queue, sent again. Never waits: an event whose message is live is not locked,
-- so that a worker can settle it meanwhile; one that somebody else holds, or has just sent again, is left.
create function redrive._replay(q redrive.queue, p_ids uuid[]) returns table (id uuid, msg_id bigint, status text)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_ids uuid[];
    v_msg_ids bigint[];
    v_live boolean[];
    v_held uuid[];
    v_letters bigint[];
    v_lettered uuid[];
    v_free bigint[];
begin
    execute format('select array_agg(e.id), array_agg(e.msg_id), array_agg(exists (select from pgmq.%I m where m.msg_id = e.msg_id and %s = e.id))
                      from redrive.webhook_event e where e.id = any ($1) and e.queue = $2', 'q_' || q.queue, redrive._part(q, 'event'))
       into v_ids, v_msg_ids, v_live using p_ids, q.queue;
    -- Only while it names the same message: another replay may have ended since, whose message this snapshot would not show.
    select array_agg(h.id order by h.received_at, h.id) into v_held
      from (select e.id, e.received_at
              from unnest(v_ids, v_msg_ids, v_live) p(id, msg_id, live) join redrive.webhook_event e on e.id = p.id and e.msg_id = p.msg_id
             where not p.live order by e.id for update of e skip locked) h;
    return query select p.id, p.msg_id, case when p.live then 'live' else 'locked' end
                   from unnest(v_ids, v_msg_ids, v_live) p(id, msg_id, live) where p.id <> all (coalesce(v_held, '{}'));
    if q.inbox and to_regclass(format('pgmq.%I', 'q_' || q.queue || '_dlq')) is not null then
        execute format($q$
            select array_agg(l.dead_id), array_agg(l.id)
              from (select distinct on (e.id) d.msg_id as dead_id, e.id
                      from redrive.webhook_event e
                      join pgmq.%I d on d.message ->> 'original_msg_id' = e.msg_id::text
                       and d.message -> 'headers' ->> 'x-redrive-event' = e.id::text
                     where e.id = any ($1) order by e.id, d.msg_id desc) l $q$, 'q_' || q.queue || '_dlq')
           into v_letters, v_lettered using v_held;
    end if;
    if v_letters is not null then
        execute format('select array_agg(m.msg_id) from (select m.msg_id from pgmq.%I m where m.msg_id = any ($1)
                                                          order by m.msg_id for update skip locked) m', 'q_' || q.queue || '_dlq')
           into v_free using v_letters;
        -- Somebody redrives or discards the others just now.
        v_held := array(select h.id from unnest(v_held) with ordinality h(id, n)
                         where h.id <> all (array(select l.id from unnest(v_letters, v_lettered) l(dead_id, id)
                                                   where l.dead_id <> all (coalesce(v_free, '{}')))) order by h.n);
        return query select l.id, e.msg_id, 'locked'
                       from unnest(v_letters, v_lettered) l(dead_id, id) join redrive.webhook_event e on e.id = l.id
                      where l.dead_id <> all (coalesce(v_free, '{}'));
    end if;
    -- From the record, not from the letter: an earlier redrive may have patched that one.
    return query select r.id, r.msg_id, 'replayed' from redrive._send_events_again(q, coalesce(v_held, '{}')) r;
    if v_free is not null then
        perform redrive._close_dead(q, v_free, 'redriven');
    end if;
end
$$;
revoke all on function redrive._replay(redrive.queue, uuid[]) from public;
