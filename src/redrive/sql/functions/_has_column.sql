-- _has_column: does this table have this column? pgmq's abilities are looked up, never read from a version.
create function redrive._has_column(p_table oid, p_column text) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select exists (select from pg_attribute where attrelid = p_table and attname = p_column and attnum > 0 and not attisdropped)
$$;
revoke all on function redrive._has_column(oid, text) from public;
