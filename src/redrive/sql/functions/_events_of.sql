-- _events_of: the query that walks the events of source s.source, newest first, at most $2. Only what is asked for stands in it, so
-- that it is planned for that. $3 status, $4 resource, $5 type as a LIKE pattern, $6 since, $7 until, $8 and $9 after whom.
create function redrive._events_of(p_type text, p_status text, p_resource text, p_since timestamptz, p_until timestamptz, p_after uuid) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    with filters(text) as (select concat(
        case when p_resource is not null then ' and e.resource = $4' end, case when p_type is not null then ' and e.type like $5' end,
        case when p_since is not null then ' and e.received_at >= $6' end, case when p_until is not null then ' and e.received_at < $7' end,
        case when p_after is not null then ' and (e.received_at, e.id) < ($8, $9)' end))
    -- By resource there are few: one index has them. Else each status is walked, for the index begins with it.
    select case when p_resource is not null then format(
                    'select e.* from redrive.webhook_event e where e.source = s.source %s %s order by e.received_at desc, e.id desc limit $2',
                    case when p_status is not null then 'and e.status = $3' end, f.text)
                else format(
                    'select w.* from unnest(%s) t(status) cross join lateral (
                         select e.* from redrive.webhook_event e where e.source = s.source and e.status = t.status %s
                          order by e.received_at desc, e.id desc limit $2) w
                      order by w.received_at desc, w.id desc limit $2',
                    case when p_status is not null then 'array[$3]' else 'array[''received'', ''processed'', ''failed'', ''ignored'']' end, f.text)
           end
      from filters f
$$;
revoke all on function redrive._events_of(text, text, text, timestamptz, timestamptz, uuid) from public;
