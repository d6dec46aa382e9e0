-- _part: the SQL expressions that read one fact of a message, for EXECUTE. One place knows where a fact stands.
--   key       header x-redrive-key, else the payload's key field
--   credit    deliveries given back          settled   the last reported delivery
--   attempt   read_ct - credit               columns   what both tables of the queue have
create function redrive._part(q redrive.queue, p_part text) returns text
language sql immutable set search_path = ''
as $$
    select case p_part
        when 'key' then
            case when q.has_headers and q.key_field is not null
                      then format('nullif(coalesce(m.headers ->> ''x-redrive-key'', m.message ->> %L), '''')', q.key_field)
                 when q.has_headers then 'm.headers ->> ''x-redrive-key'''
                 when q.key_field is not null then format('nullif(m.message ->> %L, '''')', q.key_field)
                 else 'null::text' end
        when 'credit' then
            case when q.has_headers then 'coalesce((m.headers ->> ''x-redrive-credit'')::integer, 0)' else '0' end
        when 'settled' then
            case when q.has_headers then 'coalesce((m.headers ->> ''x-redrive-settled'')::integer, 0)' else '0' end
        when 'attempt' then
            case when q.has_headers then '(m.read_ct - coalesce((m.headers ->> ''x-redrive-credit'')::integer, 0))' else 'm.read_ct' end
        when 'gap' then
            case when q.has_headers then '(m.read_ct > coalesce((m.headers ->> ''x-redrive-settled'')::integer, 0))' else 'false' end
        when 'isolated' then
            case when q.has_headers then 'coalesce(m.headers ? ''x-redrive-isolated'', false)' else 'false' end
        when 'headers' then
            case when q.has_headers then 'm.headers' else 'null::jsonb' end
        when 'columns' then
            'msg_id, read_ct, enqueued_at, vt, message'
            || case when q.has_headers then ', headers' else '' end
            || case when q.has_last_read_at then ', last_read_at' else '' end
    end
$$;
revoke all on function redrive._part(redrive.queue, text) from public;
