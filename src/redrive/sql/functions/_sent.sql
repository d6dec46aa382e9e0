-- _sent: how many ids a queue's table has given out: those of messages that were sent, and of sends that rolled back.
-- Null where this role may not know.
create function redrive._sent(p_table regclass) returns bigint
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_sequence oid := pg_get_serial_sequence(p_table::text, 'msg_id')::regclass;
begin
    if v_sequence is null or not has_sequence_privilege(v_sequence, 'usage, select') then
        return null;
    end if;
    return coalesce(pg_sequence_last_value(v_sequence), 0);
end
$$;
revoke all on function redrive._sent(regclass) from public;
