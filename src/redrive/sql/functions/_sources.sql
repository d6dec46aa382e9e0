-- _sources: the sources that ever sent anything, or were refused, by skipping along the indexes from one to the next.
create function redrive._sources() returns setof text
language sql stable set search_path = pg_catalog, pg_temp
as $$
    with recursive known as (
        (select e.source from redrive.webhook_event e order by e.source limit 1)
        union all
        select (select e.source from redrive.webhook_event e where e.source > k.source order by e.source limit 1)
          from known k where k.source is not null)
    select k.source from known k where k.source is not null
    union
    select c.source from redrive.webhook_count c
$$;
revoke all on function redrive._sources() from public;
