-- show_key: what is known of a key: queued, running and done, as JSON; null when nothing is.
-- part: operate, read
create function redrive.show_key(p_queue text, p_key text) returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select nullif(jsonb_strip_nulls(jsonb_build_object(
        'queue', p_queue, 'key', p_key, 'queued', (select to_jsonb(s.msg_ids) from redrive.sent_key s where s.queue = p_queue and s.key = p_key),
        'state', k.state, 'message', k.owner_msg, 'owner', k.owner, 'lease_until', k.lease_until, 'done_at', k.done_at,
        'expires_at', k.expires_at, 'result', k.result)), jsonb_build_object('queue', p_queue, 'key', p_key))
      from (select 1) one left join redrive.key k on k.queue = p_queue and k.key = p_key
$$;
revoke all on function redrive.show_key(text, text) from public;
