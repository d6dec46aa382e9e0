-- reschedule: messages that are not running become due p_delay seconds from now (0: now). Returns their ids.
-- part: send, operate
create function redrive.reschedule(p_queue text, p_msg_ids bigint[], p_delay numeric) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
    v_due timestamptz := redrive._due(p_delay, null);
    v_ids bigint[];
begin
    q := redrive._policy_of(p_queue);
    v_ids := redrive._not_running(q, p_msg_ids);
    execute format('update pgmq.%I m set vt = $2 where m.msg_id = any ($1)', 'q_' || p_queue) using v_ids, v_due;
    perform redrive._wake(p_queue);
    return query select unnest(v_ids);
end
$$;
revoke all on function redrive.reschedule(text, bigint[], numeric) from public;
