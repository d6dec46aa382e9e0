-- _cron_jobs: whether the last finished run of each pg_cron job of this database failed. Of the newest 2,000 runs: the table is
-- indexed by the run only, and is never pruned by itself. What a run said is left out, since it may hold a secret; but what redrive's own
-- functions say holds none.
create function redrive._cron_jobs() returns setof redrive._reading
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if to_regclass('cron.job') is not null and to_regclass('cron.job_run_details') is not null then
        return query execute $q$
            select 'cron_failed', n.name, max(n.failed), jsonb_build_object('why', coalesce(': ' || max(n.said), '.'))
              from (select left(coalesce(nullif(to_jsonb(j) ->> 'jobname', ''), 'job ' || j.jobid), 200) as name, coalesce((r.status = 'failed')::integer, 0)::double precision as failed,
                           case when r.status = 'failed' and r.command ~ '^select redrive[.](post_tick|cron_tick|run_retention|check_queue_health)[(][^;]*;?$'
                                then left(regexp_replace(split_part(btrim(r.return_message, E' \n'), E'\n', 1), '^ERROR: *', ''), 300) end as said
                      from cron.job j
                      left join (select distinct on (d.jobid) d.jobid, d.status, d.command, d.return_message
                                   from (select * from cron.job_run_details d order by d.runid desc limit 2000) d
                                  where d.status in ('succeeded', 'failed') order by d.jobid, d.runid desc) r on r.jobid = j.jobid
                     where j.active and j.database = current_database()) n
             group by n.name order by n.name limit 500 $q$;
    end if;
end
$$;
revoke all on function redrive._cron_jobs() from public;
