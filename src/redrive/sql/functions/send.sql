-- send: one message, in the caller's transaction. p_unique: a key that is queued, running or done returns that message's id
-- and sends nothing. p_delay is seconds, p_at an absolute time that overrides it.
-- part: send
create function redrive.send(
    p_queue text, p_message jsonb, p_key text default null, p_delay numeric default 0,
    p_headers jsonb default null, p_unique boolean default false, p_at timestamptz default null)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
    v_id bigint;
    v_key text := p_key;
    v_headers jsonb := p_headers;
    v_due timestamptz := redrive._due(p_delay, p_at);
begin
    q := redrive._policy_of(p_queue);
    if p_unique or p_message is null or p_key is not null or p_headers is not null then
        if p_unique then
            select s.msg_id into v_id from redrive._send_unique(q, p_message, p_key, v_due, p_headers) s;
            return v_id;
        end if;
        perform redrive._check_message(q, p_message, p_key, p_headers);
    end if;
    if p_key is not null then
        v_headers := coalesce(p_headers, '{}') || jsonb_build_object('x-redrive-key', p_key);
    elsif q.key_field is not null then
        v_key := nullif(p_message ->> q.key_field, '');
        if v_key is not null then
            perform redrive._check_key(v_key);
        end if;
    end if;
    if q.has_headers then
        execute format('insert into pgmq.%I (vt, message, headers) values ($1, $2, $3) returning msg_id', 'q_' || p_queue)
            into v_id using v_due, p_message, v_headers;
    else
        execute format('insert into pgmq.%I (vt, message) values ($1, $2) returning msg_id', 'q_' || p_queue)
            into v_id using v_due, p_message;
    end if;
    if v_key is not null then
        perform redrive._remember_sent(p_queue, v_key, v_id);
    end if;
    if q.notify then
        perform redrive._wake(p_queue);
    end if;
    return v_id;
end
$$;
revoke all on function redrive.send(text, jsonb, text, numeric, jsonb, boolean, timestamptz) from public;
