-- _rows_of: about how many rows a table has, from statistics: no scan. 0 where there is no such table.
create function redrive._rows_of(p_table text) returns bigint
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select coalesce((select case when s.n_live_tup > 0 then s.n_live_tup else greatest(c.reltuples, 0) end::bigint
                       from pg_class c left join pg_stat_all_tables s on s.relid = c.oid where c.oid = to_regclass(p_table)), 0)
$$;
revoke all on function redrive._rows_of(text) from public;
