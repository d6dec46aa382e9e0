-- run_retention: delete what is over of every kind (redrive.purge_due), a batch of each in turn, until nothing is over or p_seconds are: a
-- job of pg_cron's, each minute. Returns how many rows went of each kind, and why others could not. One transaction: what it deleted is back if
-- it does not end, and rows that somebody holds are left; what it locks itself ended long ago, so that no worker waits for it. One at a time: a
-- second call does nothing, and neither does any while schedule redrive.retention is paused; it is that schedule's tick, too.
-- Beside them: calls of post_tick older than a day, and, once an hour, what pg_cron notes of the runs of redrive's own jobs (named
-- redrive ...) for longer than a week, which nobody else deletes.
-- part: operate
create function redrive.run_retention(p_seconds numeric default 10, p_batch integer default 5000)
returns table (what text, deleted bigint, problem text)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
    v_until timestamptz := clock_timestamp() + make_interval(secs => p_seconds::float8);
    v_left text[] := '{archive,letters,failures,keys,sent_keys,events,refused,fetched,runs,alerts,workers}'::text[];
    v_what text;
    v_rows bigint;
    v_gone jsonb := '{}'::jsonb;
    v_problems jsonb := '{}'::jsonb;
begin
    if p_seconds is null or p_seconds <= 0 or p_seconds > 3600 then
        perform redrive._refuse(format('p_seconds is %s; it must be above 0, at most 3600', coalesce(p_seconds::text, 'null')));
    end if;
    perform redrive._check_purge('archive', null, p_batch);
    if not pg_try_advisory_xact_lock(hashtextextended('redrive.run_retention', 0))
       or exists (select from redrive.schedule s where s.name = 'redrive.retention' and s.paused) then
        return;
    end if;
    while cardinality(v_left) > 0 loop
        foreach v_what in array v_left loop
            exit when clock_timestamp() >= v_until and v_gone <> '{}';
            begin
                v_rows := redrive.purge_due(v_what, null, p_batch);
            exception when others then
                -- One table that is locked, or broken, keeps nothing else.
                v_rows := 0;
                v_problems := v_problems || jsonb_build_object(v_what, sqlerrm);
            end;
            v_gone := v_gone || jsonb_build_object(v_what, coalesce((v_gone ->> v_what)::bigint, 0) + v_rows);
            if v_rows = 0 then
                v_left := array_remove(v_left, v_what);
            end if;
        end loop;
        exit when clock_timestamp() >= v_until;
    end loop;
    delete from redrive.http_call c where c.at < redrive.clock() - interval '1 day';
    begin
        v_rows := redrive._purge_cron_runs();
        v_gone := v_gone || jsonb_build_object('cron_runs', v_rows);
    exception when others then
        v_problems := v_problems || jsonb_build_object('cron_runs', sqlerrm);
    end;
    if exists (select from redrive.schedule s where s.name = 'redrive.retention') then
        perform from redrive.cron_tick('redrive.retention');
    end if;
    for v_what in select k from jsonb_object_keys(v_problems) k order by 1 loop
        raise warning 'retention of %: %', v_what, v_problems ->> v_what;
    end loop;
    return query select k, coalesce((v_gone ->> k)::bigint, 0), v_problems ->> k
                   from jsonb_object_keys(v_gone || v_problems) k where (v_gone ->> k)::bigint > 0 or v_problems ? k order by 1;
end
$$;
revoke all on function redrive.run_retention(numeric, integer) from public;
