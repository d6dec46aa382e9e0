-- _exists: does this table of pgmq hold this message?
create function redrive._exists(p_table text, p_msg_id bigint) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_found boolean;
begin
    execute format('select exists (select from pgmq.%I m where m.msg_id = $1)', p_table) into v_found using p_msg_id;
    return v_found;
end
$$;
revoke all on function redrive._exists(text, bigint) from public;
