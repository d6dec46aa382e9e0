-- _send_unique: send unless the key is queued, running or done; then the id of that message, duplicate true.
-- The sends' row of the key is locked first, so that fifty at once agree on one message.
create function redrive._send_unique(q redrive.queue, p_message jsonb, p_key text, p_due timestamptz, p_headers jsonb)
returns table (msg_id bigint, duplicate boolean)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_key text := coalesce(p_key, nullif(p_message ->> q.key_field, ''));
    v_live bigint[];
    v_done redrive.key;
begin
    perform redrive._check_message(q, p_message, v_key, p_headers);
    if v_key is null then
        perform redrive._refuse('unique needs a key; give one');
    end if;
    -- One statement finds or makes the row and locks it: between two, the end of the key's message could delete it.
    insert into redrive.sent_key as s (queue, key, msg_ids) values (q.queue, v_key, '{}')
        on conflict (queue, key) do update set msg_ids = s.msg_ids returning s.msg_ids into v_live;
    -- Checked, not believed: a purge by hand must not pin a key.
    execute format('select array_agg(msg_id order by msg_id) from pgmq.%I where msg_id = any ($1)', 'q_' || q.queue) into v_live using v_live;
    if v_live is not null then
        return query select v_live[1], true;
        return;
    end if;
    select * into v_done from redrive.key k
     where k.queue = q.queue and k.key = v_key
       and (k.state = 'done' and k.expires_at > redrive.clock()
            or k.state = 'running' and k.lease_until > redrive.clock() and (k.owner_msg is null or redrive._exists('q_' || q.queue, k.owner_msg)));
    if found then
        delete from redrive.sent_key s where s.queue = q.queue and s.key = v_key;
        return query select v_done.owner_msg, true;
        return;
    end if;
    if q.has_headers then
        execute format('insert into pgmq.%I (vt, message, headers) values ($1, $2, $3) returning msg_id', 'q_' || q.queue)
           into msg_id using p_due, p_message,
                case when p_key is null then p_headers else coalesce(p_headers, '{}') || jsonb_build_object('x-redrive-key', p_key) end;
    else
        execute format('insert into pgmq.%I (vt, message) values ($1, $2) returning msg_id', 'q_' || q.queue)
           into msg_id using p_due, p_message;
    end if;
    update redrive.sent_key s set msg_ids = array[_send_unique.msg_id] where s.queue = q.queue and s.key = v_key;
    if q.notify then
        perform redrive._wake(q.queue);
    end if;
    return query select _send_unique.msg_id, false;
end
$$;
revoke all on function redrive._send_unique(redrive.queue, jsonb, text, timestamptz, jsonb) from public;
