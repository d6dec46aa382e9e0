-- declare_schedules: what a process that can fire schedules declares: a JSON array of {"name", "queue", "payload", "cron" or
-- "every_sec", "tz", "missed", "overlap"}. A changed cron text, interval or zone counts from now on; nothing is made up.
-- A schedule without a queue is redrive's own, and its name begins with redrive. What is not named stays as it is.
-- Returns what was new or changed.
-- part: work, operate
create function redrive.declare_schedules(p_schedules jsonb) returns table (name text, status text)
language plpgsql security definer set search_path = '' set lock_timeout = '5s'
as $$
#variable_conflict use_column
declare
    v_now timestamptz := redrive.clock();
    d record;
    s redrive.schedule;
begin
    perform redrive._check_schedules(p_schedules);
    -- In one order, so that two declare without a deadlock.
    for d in select e ->> 'name' as name, e ->> 'queue' as queue, nullif(e -> 'payload', 'null') as payload, e ->> 'cron' as cron,
                    (e ->> 'every_sec')::numeric as every_sec, e ->> 'tz' as tz, e ->> 'missed' as missed, e ->> 'overlap' as overlap
               from jsonb_array_elements(p_schedules) e order by 1 loop
        insert into redrive.schedule (name, queue, payload, cron, every_sec, tz, missed, overlap, declared_at, base_at)
             values (d.name, d.queue, d.payload, d.cron, d.every_sec, d.tz, d.missed, d.overlap, v_now, v_now)
        on conflict do nothing;
        if found then
            return query select d.name, 'new';
            continue;
        end if;
        select * into s from redrive.schedule r where r.name = d.name;
        if (s.queue, s.payload, s.cron, s.every_sec, s.tz, s.missed, s.overlap)
           is not distinct from (d.queue, d.payload, d.cron, d.every_sec, d.tz, d.missed, d.overlap) then
            continue;
        end if;
        update redrive.schedule r
           set payload = d.payload, missed = d.missed, overlap = d.overlap, declared_at = v_now,
               queue = d.queue,
               unfinished = case when r.queue is distinct from d.queue then '{}' else r.unfinished end,
               last_msg_id = case when r.queue is distinct from d.queue then null else r.last_msg_id end,
               cron = d.cron, every_sec = d.every_sec, tz = d.tz
         where r.name = d.name;
        if (s.cron, s.every_sec, s.tz) is distinct from (d.cron, d.every_sec, d.tz) then
            update redrive.schedule r set revision = r.revision + 1, base_at = v_now, next_at = null where r.name = d.name;
        end if;
        return query select d.name, 'changed';
    end loop;
end
$$;
revoke all on function redrive.declare_schedules(jsonb) from public;
