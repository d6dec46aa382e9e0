-- receive_event: record a webhook event and send its job, in one call and the caller's transaction. 50 at once with one id: one
-- is new, 49 are duplicates and name the same row. The message is the payload, or {"event_id", "type"} where there is none;
-- header x-redrive-event names the event. It has no key, whatever its payload says, and no limit of size.
-- conflict: the id came before with other bytes; kept in the quarantine, not sent. No conflict where only the top-level fields
-- p_volatile differ, which the provider changes between deliveries.
-- p_derived: the id was made from a state that may come back: it suppresses only while the earlier event is unprocessed or
-- under two hours old; later it is a new event, with the time of its receipt appended to the id.
-- part: send
create function redrive.receive_event(
    p_source text, p_event_id text, p_type text, p_payload jsonb, p_raw bytea, p_headers jsonb, p_queue text,
    p_resource text default null, p_volatile text[] default null, p_derived boolean default false, p_origin text default 'webhook')
returns table (id uuid, msg_id bigint, duplicate boolean, conflict boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    q redrive.queue;
    v_id uuid := gen_random_uuid();
    v_now timestamptz := redrive.clock();
    v_event_id text := p_event_id;
    v_earlier redrive.webhook_event;
    v_msg_id bigint;
begin
    perform redrive._check_event(p_source, p_event_id, p_type, p_raw, p_resource, p_origin);
    q := redrive._policy_of(p_queue);
    perform redrive._check_inbox(q);
    if p_derived then
        v_event_id := redrive._derived_id(p_source, p_event_id, v_now);
    end if;
    -- Looked at before it is written: an insert would wait for a handler's transaction that is completing the earlier event.
    select * into v_earlier from redrive.webhook_event e where e.source = p_source and e.event_id = v_event_id;
    if not found then
        -- The message's id is taken now, so that the row is written once.
        insert into redrive.webhook_event as e (id, source, event_id, type, resource, received_at, payload, raw, headers, msg_id, queue, origin)
             values (v_id, p_source, v_event_id, p_type, p_resource, v_now, p_payload, p_raw, p_headers,
                     nextval(pg_get_serial_sequence(format('pgmq.%I', 'q_' || p_queue), 'msg_id')), p_queue, p_origin)
        on conflict (source, event_id) do nothing
          returning e.msg_id into v_msg_id;
        if found then
            perform redrive._send_event(q, v_id, v_msg_id, redrive._event_message(v_event_id, p_type, p_payload), v_now);
            return query select v_id, v_msg_id, false, false;
            return;
        end if;
        -- Another was faster, and has committed: only a new statement sees its row.
        select * into strict v_earlier from redrive.webhook_event e where e.source = p_source and e.event_id = v_event_id;
    end if;
    if not p_derived and redrive._conflicts(v_earlier, p_raw, p_payload, p_volatile) then
        perform redrive._quarantine(p_source, v_now, 'conflict', 'the id was received before, with another body', p_headers, p_raw,
                                    octet_length(p_raw), v_event_id);
        perform redrive._count_refused(p_source, 'conflict', 1, v_now);
        return query select v_earlier.id, v_earlier.msg_id, true, true;
        return;
    end if;
    return query select v_earlier.id, v_earlier.msg_id, true, false;
end
$$;
revoke all on function redrive.receive_event(text, text, text, jsonb, bytea, jsonb, text, text, text[], boolean, text) from public;
