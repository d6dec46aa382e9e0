-- cron_tick: fire what is due of a schedule, and move on to its next tick, all computed here: a job of pg_cron's, which may run at a
-- tick or more often. Each tick is fired once, also beside workers, who fire the same ones. What was missed is made up as the
-- schedule says; with skip, a tick is let go that is older than 90 seconds. What this call did with which tick comes back, as from
-- redrive.fire_schedule.
-- part: operate
create function redrive.cron_tick(p_name text) returns table (tick timestamptz, outcome text, msg_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now timestamptz := redrive.clock();
    s redrive.schedule;
    v_next timestamptz;
    v_due timestamptz[];
    v_missed timestamptz[] := '{}'::timestamptz[];
begin
    -- Notes that the schedule is looked after, too.
    perform from redrive.due_schedules(array[p_name]);
    select * into s from redrive.schedule r where r.name = p_name;
    if not found then
        perform redrive._no_schedule(p_name);
    elsif s.paused then
        return;
    end if;
    v_next := coalesce(redrive._sound(s.next_at), (select t from redrive._ticks(s, s.base_at, 'infinity', 1) t));
    if v_next > v_now then
        v_due := '{}';
    elsif s.missed = 'all' then
        v_due := array(select t from redrive._ticks(s, v_next - interval '1 microsecond', v_now, 1000) t);
    else
        -- The newest ones. Of a cron text within 40 days, so that nobody walks a year of minutes.
        v_due := array(select t from redrive._ticks(s, greatest(v_next - interval '1 microsecond', v_now - coalesce(make_interval(secs => 101 * s.every_sec::float8), '40 days')),
                                                    v_now, 100000) t);
    end if;
    if v_next <= v_now then
        -- What stands there as the next is one, also by hand (redrive.run_schedule).
        v_due := coalesce(nullif(v_due, '{}'), array[v_next]);
        v_next := (select t from redrive._ticks(s, case s.missed when 'all' then v_due[cardinality(v_due)] else v_now end, 'infinity', 1) t);
        if s.missed <> 'all' then
            v_missed := v_due[greatest(cardinality(v_due) - 100, 1):cardinality(v_due) - 1];
            v_due := v_due[cardinality(v_due):];
        end if;
        if s.missed = 'skip' and v_due[1] < v_now - interval '90 seconds' then
            v_missed := v_missed || v_due;
            v_due := '{}';
        end if;
    end if;
    return query select f.tick, f.outcome, f.msg_id from redrive.fire_schedule(p_name, v_due, v_next, s.revision, v_missed) f;
end
$$;
revoke all on function redrive.cron_tick(text) from public;
