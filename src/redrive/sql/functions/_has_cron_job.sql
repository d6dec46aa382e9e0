-- _has_cron_job: is there a job of the owner's with this name, which is on, by one of these schedules, with its command (as of
-- redrive.put_cron_job)?
create function redrive._has_cron_job(p_name text, p_schedules text[], p_commands text[]) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_there boolean := false;
begin
    if to_regclass('cron.job') is not null then
        execute $q$select exists (select from cron.job c join generate_subscripts($2, 1) n
                                      on c.schedule = $2[n] and c.command = $3[least(n, cardinality($3))]
                                   where c.jobname = $1 and c.active and c.database = current_database()
                                     and c.username = (select pg_get_userbyid(s.nspowner) from pg_namespace s where s.nspname = 'redrive'))$q$
           into v_there using p_name, p_schedules, p_commands;
    end if;
    return v_there;
end
$$;
revoke all on function redrive._has_cron_job(text, text[], text[]) from public;
