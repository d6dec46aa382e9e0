-- _unfinished: which messages of a schedule are still in its queue, where its overlap asks.
create function redrive._unfinished(s redrive.schedule) returns bigint[]
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids bigint[] := s.unfinished || s.last_msg_id;
begin
    if s.overlap = 'allow' or s.queue is null or to_regclass(format('pgmq.%I', 'q_' || s.queue)) is null then
        return '{}'::bigint[];
    end if;
    execute format('select coalesce(array_agg(m.msg_id), ''{}'') from pgmq.%I m where m.msg_id = any ($1)', 'q_' || s.queue) into v_ids using v_ids;
    return v_ids;
end
$$;
revoke all on function redrive._unfinished(redrive.schedule) from public;
