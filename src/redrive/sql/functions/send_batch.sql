-- send_batch: one JSON array in, ids out in its order, all or nothing. p_keys: one a message, null for none.
-- part: send
create function redrive.send_batch(
    p_queue text, p_messages jsonb, p_keys text[] default null, p_delay numeric default 0,
    p_headers jsonb default null, p_unique boolean default false, p_at timestamptz default null)
returns setof bigint
language sql security definer set search_path = ''
as $$
    select s.msg_id from redrive.send_batch_checked(p_queue, p_messages, p_keys, p_delay, p_headers, p_unique, p_at) s
$$;
revoke all on function redrive.send_batch(text, jsonb, text[], numeric, jsonb, boolean, timestamptz) from public;
