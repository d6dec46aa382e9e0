-- purge_archive: delete at most p_batch of the oldest archived messages of a queue that ended longer ago than p_older_than: how many
-- went. Call it until that is 0, committing in between. Live and dead messages are never touched.
-- part: operate
create function redrive.purge_archive(p_queue text, p_older_than interval, p_batch integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
as $$
begin
    perform redrive._check_purge('archive', p_queue, p_batch);
    if p_older_than is null then
        perform redrive._refuse('older than what? Give an interval, such as ''30 days''');
    end if;
    return (select p.deleted from redrive._purge('archive', p_queue, redrive._purge_before('archive', p_queue, p_older_than), p_batch, false) p);
end
$$;
revoke all on function redrive.purge_archive(text, interval, integer) from public;
