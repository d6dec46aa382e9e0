-- _insert_batch: unfold a JSON array into the queue table; the ids in the array's order.
create function redrive._insert_batch(q redrive.queue, p_messages jsonb, p_keys text[], p_due timestamptz, p_headers jsonb)
returns bigint[]
language plpgsql set search_path = ''
as $$
declare
    v_ids bigint[];
begin
    if not q.has_headers then
        if p_keys is not null then
            perform redrive._check_message(q, m.value, p_keys[m.n::int], null)
               from jsonb_array_elements(p_messages) with ordinality m(value, n) where p_keys[m.n::int] is not null;
        end if;
        execute format('with sent as (insert into pgmq.%I (vt, message) select $2, value from jsonb_array_elements($1) returning msg_id)
                        select array_agg(msg_id) from sent', 'q_' || q.queue)
           into v_ids using p_messages, p_due;
    elsif p_keys is null then
        execute format('with sent as (insert into pgmq.%I (vt, message, headers) select $2, value, $3 from jsonb_array_elements($1) returning msg_id)
                        select array_agg(msg_id) from sent', 'q_' || q.queue)
           into v_ids using p_messages, p_due, p_headers;
    else
        execute format($q$with sent as (
                              insert into pgmq.%I (vt, message, headers)
                              select $2, m.value, case when $4[m.n::int] is null then $3
                                                  else coalesce($3, '{}') || jsonb_build_object('x-redrive-key', $4[m.n::int]) end
                                from jsonb_array_elements($1) with ordinality m(value, n)
                           returning msg_id)
                          select array_agg(msg_id) from sent$q$, 'q_' || q.queue)
           into v_ids using p_messages, p_due, p_headers, p_keys;
    end if;
    return v_ids;
end
$$;
revoke all on function redrive._insert_batch(redrive.queue, jsonb, text[], timestamptz, jsonb) from public;
