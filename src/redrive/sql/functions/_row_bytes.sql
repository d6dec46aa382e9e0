-- _row_bytes: what a row of a queue's archive takes, its index entries included: measured on the newest and the oldest hundred.
create function redrive._row_bytes(q redrive.queue) returns numeric
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_bytes numeric;
    v_of text := 'pg_column_size(a.message)' || case when q.has_headers then ' + coalesce(pg_column_size(a.headers), 0)' else '' end;
begin
    -- 150: the other columns, the row's head, and its entries in two indexes.
    execute format('select avg(s.size) + 150 from (
                        (select %1$s as size from pgmq.%2$I a order by a.archived_at limit 100) union all
                        (select %1$s from pgmq.%2$I a order by a.archived_at desc limit 100)) s', v_of, 'a_' || q.queue) into v_bytes;
    return coalesce(v_bytes, 0);
end
$$;
revoke all on function redrive._row_bytes(redrive.queue) from public;
