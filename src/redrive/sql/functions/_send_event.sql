-- _send_event: the job of a new event.
create function redrive._send_event(q redrive.queue, p_id uuid, p_msg_id bigint, p_message jsonb, p_now timestamptz) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_large boolean := redrive._event_size(p_message) > 1000000;
begin
    perform redrive._mark_inbox(q, v_large);
    execute format('insert into pgmq.%I (msg_id, vt, message, headers) overriding system value values ($1, $2, $3, $4)', 'q_' || q.queue)
      using p_msg_id, p_now, p_message, redrive._event_headers(p_id, v_large);
    if q.notify then
        perform redrive._wake(q.queue);
    end if;
end
$$;
revoke all on function redrive._send_event(redrive.queue, uuid, bigint, jsonb, timestamptz) from public;
