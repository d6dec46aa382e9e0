-- _not_running: lock those of these messages that nobody is running: due, delayed, waiting for a retry, or given back.
-- pgmq 1.4.4 keeps no record of reports: there a message that was read and is not due yet counts as running.
create function redrive._not_running(q redrive.queue, p_ids bigint[]) returns bigint[]
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids bigint[];
begin
    execute format('select array_agg(m.msg_id) from (
                        select m.msg_id from pgmq.%I m where m.msg_id = any ($1) and (m.vt <= $2 or m.read_ct = %s)
                         order by m.msg_id for update skip locked) m',
                   'q_' || q.queue, redrive._part(q, 'settled'))
       into v_ids using p_ids, redrive.clock();
    return v_ids;
end
$$;
revoke all on function redrive._not_running(redrive.queue, bigint[]) from public;
