-- purge: delete one batch of what is over, for an operator: older than p_older_than, or what the rules say where that is null.
-- what: as of purge_due; archive needs a queue. How many rows went.
-- part: operate
create function redrive.purge(p_what text, p_queue text default null, p_older_than interval default null, p_batch integer default 5000) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
as $$
declare
    v_before timestamptz := redrive._purge_before(p_what, p_queue, p_older_than);
begin
    perform redrive._check_purge(p_what, p_queue, p_batch);
    return case p_what
        when 'sent_keys' then redrive._purge_sent_keys(p_batch)
        when 'workers' then redrive._fold_workers(p_queue, v_before, p_batch)
        else (select p.deleted from redrive._purge(p_what, p_queue, v_before, p_batch, false) p)
    end;
end
$$;
revoke all on function redrive.purge(text, text, interval, integer) from public;
