-- send_batch: one JSON array in, ids out in its order, all or nothing. p_keys: one a message, null for none.
-- The array is unfolded in the server. Keyed messages are written down in the order of their keys, so that two batches
-- with the same keys wait for each other and never deadlock.
-- part: send
create function redrive.send_batch(
    p_queue text, p_messages jsonb, p_keys text[] default null, p_delay numeric default 0,
    p_headers jsonb default null, p_unique boolean default false, p_at timestamptz default null)
returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
    v_due timestamptz := redrive._due(p_delay, p_at);
    v_keys text[];
    v_ids bigint[];
begin
    q := redrive._check_batch(p_queue, p_messages, p_keys, p_headers);
    if p_unique then
        return query select s.msg_id from redrive.send_batch_checked(p_queue, p_messages, p_keys, p_delay, p_headers, true, p_at) s;
        return;
    end if;
    if q.notify then
        perform redrive._wake(p_queue);
    end if;
    if p_keys is null and (q.key_field is null or not p_messages @? ('$[*].' || to_json(q.key_field))::jsonpath) then
        return query execute redrive._insert_batch_sql(q, false) using p_messages, v_due, p_headers;
        return;
    end if;
    select array_agg(coalesce(p_keys[m.n::integer], nullif(m.value ->> q.key_field, '')) order by m.n) into v_keys
      from jsonb_array_elements(p_messages) with ordinality m(value, n);
    perform redrive._check_key(k) from unnest(v_keys) k where k is not null;
    execute 'with sent as (' || redrive._insert_batch_sql(q, true) || ') select array_agg(msg_id) from sent'
       into v_ids using p_messages, v_due, p_headers, p_keys;
    insert into redrive.sent_key as s (queue, key, msg_ids)
         select p_queue, k.key, array_agg(k.id order by k.id) from unnest(v_keys, v_ids) k(key, id)
          where k.key is not null group by k.key order by k.key
        on conflict (queue, key) do update set msg_ids = s.msg_ids || excluded.msg_ids;
    return query select unnest(v_ids);
end
$$;
revoke all on function redrive.send_batch(text, jsonb, text[], numeric, jsonb, boolean, timestamptz) from public;
