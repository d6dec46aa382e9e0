-- _part: the SQL expressions that read one fact of a message, for EXECUTE. One place knows where a fact stands.
--   key         header x-redrive-key, else the payload's key field
--   credit      deliveries given back, no more than there were
--   settled   the last reported delivery
--   attempt     read_ct - credit               columns   what both tables of the queue have
--   bag         the headers to add ours to
--   generation, origin, late   what else stands in the headers
--   event       the webhook event it is the job of
--   small       a condition behind others: not one of the large messages that this round leaves out
-- Whoever may write to pgmq's tables may have written anything: what is no object counts as no headers, what is no
-- number as no such header. An error here would let one message block its queue for ever.
create function redrive._part(q redrive.queue, p_part text) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case p_part
        when 'key' then
            case when q.has_headers and q.key_field is not null
                      then format('nullif(coalesce(m.headers ->> ''x-redrive-key'', m.message ->> %L), '''')', q.key_field)
                 when q.has_headers then 'nullif(m.headers ->> ''x-redrive-key'', '''')'
                 when q.key_field is not null then format('nullif(m.message ->> %L, '''')', q.key_field)
                 else 'null::text' end
        when 'credit' then
            case when q.has_headers then 'least(coalesce(substring(m.headers ->> ''x-redrive-credit'' from ''^[0-9]{1,9}$'')::integer, 0), m.read_ct)' else '0' end
        when 'settled' then
            case when q.has_headers then 'coalesce(substring(m.headers ->> ''x-redrive-settled'' from ''^[0-9]{1,9}$'')::integer, 0)' else '0' end
        when 'attempt' then
            format('(m.read_ct - %s)', redrive._part(q, 'credit'))
        when 'gap' then
            case when q.has_headers then format('(m.read_ct > %s)', redrive._part(q, 'settled')) else 'false' end
        when 'generation' then
            case when q.has_headers then 'coalesce(substring(m.headers ->> ''x-redrive-generation'' from ''^[0-9]{1,9}$'')::integer, 0)' else '0' end
        when 'origin' then
            case when q.has_headers then 'coalesce(substring(m.headers ->> ''x-redrive-origin'' from ''^[0-9]{1,18}$'')::bigint, m.msg_id)' else 'm.msg_id' end
        when 'late' then
            case when q.has_headers then 'substring(m.headers ->> ''x-redrive-late'' from ''^[0-9]{1,9}$'')::integer' else 'null::integer' end
        when 'event' then
            'substring(m.headers ->> ''x-redrive-event'' from ''^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$'')::uuid'
        when 'small' then
            case when q.large then 'and (m.headers ? ''x-redrive-large'') is not true' else '' end
        when 'bag' then
            'case when jsonb_typeof(m.headers) = ''object'' then m.headers else ''{}'' end'
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
