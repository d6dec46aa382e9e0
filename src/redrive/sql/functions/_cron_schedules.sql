-- _cron_schedules: the schedules that a job of pg_cron's of the owner's looks after, which is on: redrive schedule NAME, and redrive retention.
create function redrive._cron_schedules() returns text[]
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_names text[] := '{}'::text[];
begin
    if to_regclass('cron.job') is not null and has_schema_privilege('cron', 'usage') and has_table_privilege('cron.job', 'select') then
        execute $q$select array(select case when c.jobname = 'redrive retention' then 'redrive.retention' else substr(c.jobname, 18) end
                                  from cron.job c
                                 where c.active and c.username = current_user and c.database = current_database()
                                   and (c.jobname = 'redrive retention' or starts_with(c.jobname, 'redrive schedule ')))$q$ into v_names;
    end if;
    return v_names;
end
$$;
revoke all on function redrive._cron_schedules() from public;
