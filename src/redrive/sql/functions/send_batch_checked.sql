-- send_batch_checked: one JSON array in, one row a message out in its order; all or nothing.
-- Unkeyed messages are one insert unfolded in the server; keyed ones go in the order of their keys, so that two
-- batches with the same keys wait for each other and never deadlock.
-- part: send
create function redrive.send_batch_checked(
    p_queue text, p_messages jsonb, p_keys text[] default null, p_delay numeric default 0,
    p_headers jsonb default null, p_unique boolean default false, p_at timestamptz default null)
returns table (msg_id bigint, duplicate boolean)
language plpgsql security definer set search_path = ''
as $$
#variable_conflict use_column
declare
    q redrive.queue;
    v_due timestamptz := redrive._due(p_delay, p_at);
    v_keys text[];
    v_ids bigint[];
    v_duplicates boolean[];
    v_sent record;
    v_at integer;
begin
    select * into q from redrive.queue where queue = p_queue;
    if not found or to_regclass(format('pgmq.%I', 'q_' || p_queue)) is null then
        perform redrive._no_queue(p_queue);
    end if;
    if p_messages is null or jsonb_typeof(p_messages) <> 'array' then
        perform redrive._refuse('messages must be one JSON array');
    elsif p_keys is not null and cardinality(p_keys) <> jsonb_array_length(p_messages) then
        perform redrive._refuse(format('there are %s keys for %s messages; give one each, null for none',
                                       cardinality(p_keys), jsonb_array_length(p_messages)));
    end if;
    perform redrive._check_message(q, 'null', null, p_headers);
    select array_agg(coalesce(p_keys[m.n::int], nullif(m.value ->> q.key_field, '')) order by m.n) into v_keys
      from jsonb_array_elements(p_messages) with ordinality m(value, n)
     where p_keys is not null or q.key_field is not null;
    if p_unique then
        for v_at in select n from generate_series(1, jsonb_array_length(p_messages)) n order by v_keys[n], n loop
            select s.msg_id as id, s.duplicate into v_sent
              from redrive._send_unique(q, p_messages -> (v_at - 1), p_keys[v_at], v_due, p_headers) s;
            v_ids[v_at] := v_sent.id;
            v_duplicates[v_at] := v_sent.duplicate;
        end loop;
        return query select * from unnest(v_ids, v_duplicates);
        return;
    end if;
    perform redrive._check_message(q, 'null', k.key, null)
       from unnest(p_keys) k(key) where k.key is not null and q.has_headers;
    v_ids := redrive._insert_batch(q, p_messages, p_keys, v_due, p_headers);
    insert into redrive.sent_key as s (queue, key, msg_ids)
         select p_queue, k.key, array_agg(k.id order by k.id) from unnest(v_keys, v_ids) k(key, id)
          where k.key is not null group by k.key order by k.key
        on conflict (queue, key) do update set msg_ids = s.msg_ids || excluded.msg_ids;
    if q.notify and v_ids is not null then
        perform redrive._wake(p_queue);
    end if;
    return query select id, false from unnest(v_ids) id;
end
$$;
revoke all on function redrive.send_batch_checked(text, jsonb, text[], numeric, jsonb, boolean, timestamptz) from public;
