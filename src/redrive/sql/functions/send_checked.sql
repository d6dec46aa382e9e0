-- send_checked: send that also says whether the key was there already.
-- part: send
create function redrive.send_checked(
    p_queue text, p_message jsonb, p_key text default null, p_delay numeric default 0,
    p_headers jsonb default null, p_unique boolean default false, p_at timestamptz default null)
returns table (msg_id bigint, duplicate boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
begin
    if not p_unique then
        return query select redrive.send(p_queue, p_message, p_key, p_delay, p_headers, false, p_at), false;
        return;
    end if;
    q := redrive._policy_of(p_queue);
    return query select s.msg_id, s.duplicate from redrive._send_unique(q, p_message, p_key, redrive._due(p_delay, p_at), p_headers) s;
end
$$;
revoke all on function redrive.send_checked(text, jsonb, text, numeric, jsonb, boolean, timestamptz) from public;
