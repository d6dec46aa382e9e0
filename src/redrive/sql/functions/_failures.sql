-- _failures: a message's failed attempts as a dead letter keeps them: the first and last ten, and the text of the last.
create function redrive._failures(p_queue text, p_msg_id bigint)
returns table (failures jsonb, error text)
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select jsonb_agg(jsonb_build_object(
                   'attempt', a.attempt, 'at', a.at, 'worker', a.worker, 'duration', a.duration,
                   'error_type', a.error_type, 'error', a.error, 'traceback', a.traceback) order by a.read_ct)
               filter (where a.first <= 10 or a.last <= 10),
               (array_agg(concat_ws(': ', a.error_type, a.error) order by a.read_ct desc))[1]
          from (select t.*, row_number() over (order by t.read_ct) as first, row_number() over (order by t.read_ct desc) as last
                  from redrive.attempt t where t.queue = p_queue and t.msg_id = p_msg_id) a;
end
$$;
revoke all on function redrive._failures(text, bigint) from public;
