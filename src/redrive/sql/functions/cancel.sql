-- cancel: end messages that are not running, by id or by key; archived as cancelled, their key freed. Returns their ids.
-- part: send, operate
create function redrive.cancel(p_queue text, p_msg_ids bigint[] default null, p_key text default null) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
    v_ids bigint[] := p_msg_ids;
begin
    q := redrive._policy_of(p_queue);
    if (p_msg_ids is null) = (p_key is null) then
        perform redrive._refuse('cancel takes message ids or a key, one of the two');
    end if;
    if p_key is not null then
        select s.msg_ids into v_ids from redrive.sent_key s where s.queue = p_queue and s.key = p_key;
        if not found then
            -- Sent past redrive.send, with the key in the payload: nobody wrote down where it is.
            execute format('select array_agg(m.msg_id) from pgmq.%I m where %s = $1', 'q_' || p_queue, redrive._part(q, 'key')) into v_ids using p_key;
        end if;
    end if;
    v_ids := redrive._not_running(q, v_ids);
    if v_ids is not null then
        perform redrive._finish(q, v_ids, 'cancelled', null);
    end if;
    return query select unnest(v_ids);
end
$$;
revoke all on function redrive.cancel(text, bigint[], text) from public;
