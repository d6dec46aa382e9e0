-- _insert_batch_sql: the statement that unfolds a JSON array into a queue. $1 messages, $2 due, $3 headers, $4 keys if any.
create function redrive._insert_batch_sql(q redrive.queue, p_keyed boolean) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case
        when not q.has_headers then
            format('insert into pgmq.%I (vt, message) select $2, value from jsonb_array_elements($1) returning msg_id', 'q_' || q.queue)
        when not p_keyed then
            format('insert into pgmq.%I (vt, message, headers) select $2, value, $3 from jsonb_array_elements($1) returning msg_id', 'q_' || q.queue)
        else
            format('insert into pgmq.%I (vt, message, headers)
                    select $2, m.value, case when $4[m.n::integer] is null then $3
                                        else coalesce($3, ''{}'') || jsonb_build_object(''x-redrive-key'', $4[m.n::integer]) end
                      from jsonb_array_elements($1) with ordinality m(value, n) returning msg_id', 'q_' || q.queue)
    end
$$;
revoke all on function redrive._insert_batch_sql(redrive.queue, boolean) from public;
