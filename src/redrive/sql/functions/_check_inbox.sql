-- _check_inbox: events travel in headers: refuse a queue that has none.
create function redrive._check_inbox(q redrive.queue) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if not q.has_headers then
        raise exception 'queue % was made by a pgmq without headers: webhook events need pgmq 1.5 or newer', q.queue using errcode = 'RD002';
    end if;
end
$$;
revoke all on function redrive._check_inbox(redrive.queue) from public;
