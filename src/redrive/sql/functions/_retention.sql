-- _retention: how long a done key of this queue is remembered; 30 days where there is no such queue.
create function redrive._retention(p_queue text) returns interval
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select make_interval(secs => coalesce((select q.key_retention from redrive.queue q where q.queue = p_queue), 2592000)::float8)
$$;
revoke all on function redrive._retention(text) from public;
