-- list_events: a page of recorded events, newest first, without their bodies. Filters are joined by and; p_type may hold * for
-- any text; p_since is inside, p_until outside; p_after is the last event of the page before. Each source and status is walked
-- along one index, newest first, so a page costs what it shows; a filter by type or resource costs what it passes over.
-- part: operate, read
create function redrive.list_events(
    p_source text default null, p_type text default null, p_status text default null, p_resource text default null,
    p_since timestamptz default null, p_until timestamptz default null, p_after uuid default null, p_limit integer default 100)
returns table (id uuid, source text, event_id text, type text, resource text, received_at timestamptz, status text, attempts integer,
               last_error text, msg_id bigint, queue text, generation integer, origin text, settled_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_after timestamptz;
begin
    if p_limit is null or p_limit < 1 then
        perform redrive._refuse(format('limit is %s; it must be a whole number >= 1', coalesce(p_limit::text, 'null')));
    end if;
    if p_after is not null then
        select e.received_at into v_after from redrive.webhook_event e where e.id = p_after;
        if not found then
            perform redrive._refuse(format('event %s, after which the page begins, is not there any more; begin at the first page', p_after));
        end if;
    end if;
    for id, source, event_id, type, resource, received_at, status, attempts, last_error, msg_id, queue, generation, origin, settled_at in execute format($q$
        select e.id, e.source::text, e.event_id::text, e.type, e.resource::text, e.received_at, e.status::text, e.attempts, e.last_error,
               e.msg_id, e.queue, e.generation, e.origin, e.settled_at
          from unnest($1) s(source) cross join lateral (%s) e order by e.received_at desc, e.id desc limit $2 $q$,
        redrive._events_of(p_type, p_status, p_resource, p_since, p_until, p_after))
      using case when p_source is null then array(select redrive._sources()) else array[p_source] end, p_limit,
            p_status, p_resource, redrive._like(p_type), p_since, p_until, v_after, p_after
    loop
        return next;
    end loop;
end
$$;
revoke all on function redrive.list_events(text, text, text, text, timestamptz, timestamptz, uuid, integer) from public;
