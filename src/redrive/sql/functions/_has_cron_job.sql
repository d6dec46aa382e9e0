-- _has_cron_job: is there a job of the owner's with this name and command, which is on, by one of these schedules?
create function redrive._has_cron_job(p_name text, p_schedules text[], p_command text) returns boolean
language plpgsql stable set search_path = ''
as $$
declare
    v_there boolean := false;
begin
    if to_regclass('cron.job') is not null then
        execute 'select exists (select from cron.job c where c.jobname = $1 and c.schedule = any ($2) and c.command = $3 and c.active
                                   and c.database = current_database()
                                   and c.username = (select pg_get_userbyid(n.nspowner) from pg_namespace n where n.nspname = ''redrive''))'
           into v_there using p_name, p_schedules, p_command;
    end if;
    return v_there;
end
$$;
revoke all on function redrive._has_cron_job(text, text[], text) from public;
