-- put_cron_job: have pg_cron run a command of the owner's under this name, by the first of these schedules that it takes and that means the
-- same here: below a minute it knows from 1.5 on, and hours are those of cron.timezone, meant are UTC's. p_commands: one, or one a
-- schedule. Looks first: a job that is as it should be is not touched. Returns new, changed or same. Refused where there is no pg_cron,
-- and where a job of somebody else's has the name, which would run beside this one. Called by the owner alone.
create function redrive.put_cron_job(p_name text, p_schedules text[], p_commands text[]) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    j record;
    v_count constant integer := coalesce(cardinality(p_schedules), 0);
    v_utc constant boolean := coalesce(nullif(current_setting('cron.timezone', true), ''), 'GMT') in ('GMT', 'UTC', 'Etc/UTC');
    v_command text;
    v_id bigint;
    v_owner text;
    v_had boolean;
begin
    if to_regclass('cron.job') is null then
        raise exception 'pg_cron is not installed in this database, so job % cannot be made; run: create extension pg_cron', p_name using errcode = '55000';
    elsif v_count = 0 or coalesce(cardinality(p_commands), 0) not in (1, v_count) then
        perform redrive._refuse(format('job %s needs a schedule, and one command or one a schedule', p_name));
    end if;
    execute 'select c.username from cron.job c where c.jobname = $1 and c.database = current_database() and c.username <> current_user limit 1' into v_owner using p_name;
    if v_owner is not null then
        raise exception 'role % has a job of pg_cron named %, which would run beside the one of %; as % run: select cron.unschedule(%)',
            v_owner, p_name, current_user, v_owner, quote_literal(p_name) using errcode = '42710';
    end if;
    execute 'select c.jobid, c.schedule, c.command, c.active, c.database from cron.job c where c.jobname = $1 and c.username = current_user' into j using p_name;
    v_had := j.jobid is not null;
    if v_had and j.database <> current_database() then
        raise exception 'role % has a job of pg_cron named % for database %; a role''s jobs have one name each', current_user, p_name, j.database using errcode = '42710';
    end if;
    for n in 1..v_count loop
        v_command := p_commands[least(n, cardinality(p_commands))];
        continue when n < v_count and not v_utc and p_schedules[n] ~ '^[^ ]+ +[^ *]';
        if v_had and (j.schedule, j.command, j.active) is not distinct from (p_schedules[n], v_command, true) then
            return 'same';
        end if;
        begin
            execute 'select cron.schedule($1, $2, $3)' into v_id using p_name, p_schedules[n], v_command;
            if v_had and not j.active then
                execute 'select cron.alter_job(job_id => $1, active => true)' using v_id;
            end if;
            return case when v_had then 'changed' else 'new' end;
        exception when invalid_parameter_value then
            if n = v_count then
                raise;
            end if;
        end;
    end loop;
    return null;
end
$$;
revoke all on function redrive.put_cron_job(text, text[], text[]) from public;
