-- _check_purge: refuse a purge of what there is not, of a queue that there is not, or of a batch that cannot be meant.
create function redrive._check_purge(p_what text, p_queue text, p_batch integer default 1) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if p_what is null or p_what not in ('archive', 'letters') then
        perform redrive._keep(p_what);
    end if;
    if p_batch is null or p_batch not between 1 and 100000 then
        perform redrive._refuse(format('batch is %s; it must be from 1 to 100000', coalesce(p_batch::text, 'null')));
    elsif p_queue is not null and p_what in ('sent_keys', 'refused', 'fetched', 'runs', 'alerts') then
        perform redrive._refuse(format('%s belong to no queue; leave out %s', p_what, p_queue));
    elsif p_queue is not null and not exists (select from redrive.queue q where q.queue = p_queue) then
        perform redrive._no_queue(p_queue);
    end if;
end
$$;
revoke all on function redrive._check_purge(text, text, integer) from public;
