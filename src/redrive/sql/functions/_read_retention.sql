-- _read_retention: for how long what is kept has been over its limit; null where that cannot be read, such as of a locked table.
create function redrive._read_retention(p_now timestamptz) returns setof redrive._reading
language sql volatile set search_path = pg_catalog, pg_temp
as $$
    select 'retention_overdue_sec', concat_ws(' of ', r.what, nullif(r.queue, '')),
           case when every(r.rows is not null) then coalesce(max(r.overdue_sec), 0) end::double precision, null::jsonb
      from redrive.retention() r group by 2 limit 1000
$$;
revoke all on function redrive._read_retention(timestamptz) from public;
