-- send_batch_checked: send_batch that also says which keys were there already.
-- Unique messages are sent in the order of their keys, so that two batches never deadlock.
-- part: send
create function redrive.send_batch_checked(
    p_queue text, p_messages jsonb, p_keys text[] default null, p_delay numeric default 0,
    p_headers jsonb default null, p_unique boolean default false, p_at timestamptz default null)
returns table (msg_id bigint, duplicate boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
    v_due timestamptz := redrive._due(p_delay, p_at);
    v_keys text[];
    v_ids bigint[];
    v_duplicates boolean[];
    v_sent record;
    v_at integer;
begin
    if not p_unique then
        return query select s, false from redrive.send_batch(p_queue, p_messages, p_keys, p_delay, p_headers, false, p_at) s;
        return;
    end if;
    q := redrive._check_batch(p_queue, p_messages, p_keys, p_headers);
    select array_agg(coalesce(p_keys[m.n::integer], nullif(m.value ->> q.key_field, '')) order by m.n) into v_keys
      from jsonb_array_elements(p_messages) with ordinality m(value, n);
    for v_at in select n from generate_series(1, jsonb_array_length(p_messages)) n order by v_keys[n], n loop
        select s.msg_id as id, s.duplicate into v_sent
          from redrive._send_unique(q, p_messages -> (v_at - 1), p_keys[v_at], v_due, p_headers) s;
        v_ids[v_at] := v_sent.id;
        v_duplicates[v_at] := v_sent.duplicate;
    end loop;
    return query select * from unnest(v_ids, v_duplicates);
end
$$;
revoke all on function redrive.send_batch_checked(text, jsonb, text[], numeric, jsonb, boolean, timestamptz) from public;
