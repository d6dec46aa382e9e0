-- _subjects: what an alert may be about, as far as that is written down: queues, their leases, sources, schedules, sinks, and what an
-- alert was about before.
create function redrive._subjects() returns setof text
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select q.queue from redrive.queue q
    union select 'queue:' || q.queue from redrive.queue q
    union select s from redrive._sources() s
    union select s.name from redrive.schedule s
    union select s.name from redrive.alert_sink s
    union select a.subject from redrive.alert a
$$;
revoke all on function redrive._subjects() from public;
