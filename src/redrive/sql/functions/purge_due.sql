-- purge_due: delete one batch of what the rules say is over: how many rows went. what: archive, letters, failures, keys, sent_keys, events,
-- refused, fetched, runs, alerts, workers. A worker may call this: it cannot delete what should be kept, and of archives, whose policy a
-- worker declares, nothing that ended within the hour.
-- part: work, operate
create function redrive.purge_due(p_what text, p_queue text default null, p_batch integer default 5000) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
as $$
declare
    q redrive.queue;
    v_now timestamptz := redrive.clock();
    v_before timestamptz;
    v_total bigint := 0;
    v_trouble text;
    v_code text;
begin
    perform redrive._check_purge(p_what, p_queue, p_batch);
    if p_what in ('archive', 'letters') then
        for q in select * from redrive.queue r
                  where (p_queue is null or r.queue = p_queue) and to_regclass(format('pgmq.%I', 'a_' || r.queue)) is not null order by r.queue loop
            exit when v_total >= p_batch;
            begin
                v_before := case p_what when 'archive' then redrive._archive_cutoff(q) else v_now - make_interval(secs => q.archive_retention::float8) end;
                continue when v_before is null;
                v_total := v_total + (select p.deleted from redrive._purge(p_what, q.queue, least(v_before, v_now - interval '1 hour'),
                                                                           (p_batch - v_total)::integer, false) p);
            exception when lock_not_available or sqlstate 'RD002' then
                v_trouble := sqlerrm;
                v_code := sqlstate;
            end;
        end loop;
        if v_total = 0 and v_trouble is not null then
            raise exception '%', v_trouble using errcode = v_code;
        end if;
        return v_total;
    end if;
    v_before := v_now - make_interval(secs => coalesce(redrive._keep(p_what), 0)::float8);
    case p_what
        when 'sent_keys' then return redrive._purge_sent_keys(p_batch);
        when 'workers' then return redrive._fold_workers(p_queue, v_before, p_batch);
        else return (select p.deleted from redrive._purge(p_what, p_queue, v_before, p_batch, false) p);
    end case;
end
$$;
revoke all on function redrive.purge_due(text, text, integer) from public;
