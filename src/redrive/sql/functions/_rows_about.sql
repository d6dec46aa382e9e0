-- _rows_about: about how many rows a table has, from the statistics: nothing is read.
create function redrive._rows_about(p_table regclass) returns bigint
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select coalesce(nullif(pg_stat_get_live_tuples(p_table), 0), greatest(c.reltuples, 0)::bigint) from pg_class c where c.oid = p_table
$$;
revoke all on function redrive._rows_about(regclass) from public;
