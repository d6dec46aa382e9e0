-- _read_holders: for how long the oldest of those that keep dead rows from being cleaned up has done so.
create function redrive._read_holders(p_now timestamptz) returns setof redrive._reading
language sql volatile set search_path = pg_catalog, pg_temp
as $$
    select 'xmin_held_sec', '', coalesce(h.age_sec, 0),
           jsonb_build_object('what', concat_ws(' ', h.what, 'pid ' || h.pid, 'of role ' || h.role, nullif('(' || h.application || ')', '()')))
      from (select) one left join lateral (select * from redrive.holders() h where h.age_sec is not null and h.xmin_age is not null
                                            order by h.age_sec desc limit 1) h on true
$$;
revoke all on function redrive._read_holders(timestamptz) from public;
