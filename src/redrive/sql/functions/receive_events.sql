-- receive_events: receive_event for many at once, all or none: what a busy receiver has at hand, in one call and one commit.
-- p_events is a JSON array of objects with source, event_id, type, queue, size, and payload, headers, resource, volatile, derived
-- where there are any; p_raws are the raw bodies one behind the other, each size bytes long. One row an event, n its place from 1.
-- New events of one queue are written by one statement; for whatever came before or has a derived id receive_event decides.
-- Written in the order of their ids: whoever brings the same events at the same time waits, and does not deadlock.
-- part: send
create function redrive.receive_events(p_events jsonb, p_raws bytea)
returns table (n bigint, id uuid, msg_id bigint, duplicate boolean, conflict boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now timestamptz := redrive.clock();
    v_event record;
    v_new bigint[] := '{}'::bigint[];
    q redrive.queue;
    v_queue text;
    v_queues text[];
    v_fits boolean;
    v_large boolean;
begin
    if coalesce(jsonb_typeof(p_events), '') <> 'array' or p_raws is null then
        perform redrive._refuse('events are a JSON array of objects, and raws their bodies one behind the other');
    end if;
    select array_agg(distinct s.queue), bool_and(s.size is not null) and sum(s.size) = octet_length(p_raws) into v_queues, v_fits
      from (select e ->> 'queue' as queue, substring(e ->> 'size' from '^[0-9]{1,9}$')::bigint as size from jsonb_array_elements(p_events) e) s;
    if not v_fits then
        perform redrive._refuse('the sizes of the events must be whole numbers, in all as many bytes as raws has');
    end if;
    foreach v_queue in array coalesce(v_queues, '{}') loop
        q := redrive._policy_of(v_queue);
        v_large := null;
        for v_event in select r.* from redrive._receive_new(q, p_events, p_raws, v_now) r loop
            v_new := v_new || v_event.n;
            v_large := v_large is true or v_event.large;
            return query select v_event.n, v_event.id, v_event.msg_id, false, false;
        end loop;
        if v_large is not null then
            perform redrive._mark_inbox(q, v_large);
            if q.notify then
                perform redrive._wake(v_queue);
            end if;
        end if;
    end loop;
    if cardinality(v_new) = jsonb_array_length(p_events) then
        return;
    end if;
    for v_event in select u.* from redrive._unfold_events(p_events, p_raws) u where u.n <> all (v_new)
                    order by u.source, u.event_id, u.n loop
        return query select v_event.n, r.id, r.msg_id, r.duplicate, r.conflict
                       from redrive.receive_event(v_event.source, v_event.event_id, v_event.type, v_event.payload, v_event.raw, v_event.headers,
                                                  v_event.queue, v_event.resource, v_event.volatile, v_event.derived) r;
    end loop;
end
$$;
revoke all on function redrive.receive_events(jsonb, bytea) from public;
