-- _last_id: the highest id a queue ever gave; null where it gave none, or where it is not this role's to look.
create function redrive._last_id(p_queue text) returns bigint
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
    return pg_sequence_last_value(pg_get_serial_sequence(format('pgmq.%I', 'q_' || p_queue), 'msg_id')::regclass);
exception when insufficient_privilege then
    return null;
end
$$;
revoke all on function redrive._last_id(text) from public;
