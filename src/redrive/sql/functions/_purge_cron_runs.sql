-- _purge_cron_runs: delete what pg_cron noted of runs of redrive's own jobs more than a week ago, where this role may: how many. Once an hour: the
-- table has no index for it. 0 where there is no pg_cron.
create function redrive._purge_cron_runs() returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_rows bigint := 0;
begin
    if to_regclass('cron.job_run_details') is not null and has_schema_privilege('cron', 'usage')
       and has_table_privilege('cron.job_run_details', 'select, delete') and redrive._lease('redrive.cron_runs', 3600) is not null then
        execute $q$
            delete from cron.job_run_details d
             where d.runid = any (array(select o.runid from cron.job_run_details o join cron.job j on j.jobid = o.jobid
                                         where j.jobname like 'redrive %' and j.database = current_database() and o.start_time < $1 - interval '7 days'
                                         order by o.runid limit 100000)) $q$ using redrive.clock();
        get diagnostics v_rows = row_count;
    end if;
    return v_rows;
end
$$;
revoke all on function redrive._purge_cron_runs() from public;
