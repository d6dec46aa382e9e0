-- purge_rows: purge that returns the rows it deletes as JSON, with the table they came `from`: write them down before you commit.
-- part: operate
create function redrive.purge_rows(p_what text, p_queue text default null, p_older_than interval default null, p_batch integer default 5000)
returns setof jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
as $$
begin
    perform redrive._check_purge(p_what, p_queue, p_batch);
    if p_what in ('sent_keys', 'workers') then
        perform redrive._refuse(format('%s hold nothing that could be exported', p_what));
    end if;
    return query select p.line from redrive._purge(p_what, p_queue, redrive._purge_before(p_what, p_queue, p_older_than), p_batch, true) p;
end
$$;
revoke all on function redrive.purge_rows(text, text, interval, integer) from public;
