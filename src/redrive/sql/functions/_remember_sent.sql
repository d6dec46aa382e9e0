-- _remember_sent: a keyed message was sent. Waits for another open transaction that sends the same key.
create function redrive._remember_sent(p_queue text, p_key text, p_msg_id bigint) returns void
language sql set search_path = pg_catalog, pg_temp
as $$
    insert into redrive.sent_key as s (queue, key, msg_ids) values (p_queue, p_key, array[p_msg_id])
        on conflict (queue, key) do update set msg_ids = s.msg_ids || excluded.msg_ids
$$;
revoke all on function redrive._remember_sent(text, text, bigint) from public;
