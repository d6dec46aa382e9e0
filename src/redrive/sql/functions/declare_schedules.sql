-- declare_schedules: what a process that can fire schedules declares: a JSON array of {"name", "queue", "payload", "cron" or
-- "every_sec", "tz", "missed", "overlap"}; without payload the message says schedule and tick. A changed cron text, interval or
-- zone counts from now on; nothing is made up. A schedule without a queue is redrive's own, and its name begins with redrive.
-- What is not named stays as it is. Returns what was new or changed. Schedules with a queue: by roles that may send, too.
-- p_again: said again, every 10 s or so: what stands there otherwise is changed only when nobody has upheld it for 30 s, and
-- comes back as other before; what was dropped stays dropped. So two versions side by side leave each other alone, and the one
-- that lives on has its way. Waits for nobody.
-- part: work, operate
create function redrive.declare_schedules(p_schedules jsonb, p_again boolean default false) returns table (name text, status text)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
as $$
#variable_conflict use_column
declare
    v_now timestamptz := redrive.clock();
    d record;
    s redrive.schedule;
begin
    perform redrive._check_schedules(p_schedules);
    perform redrive._check_sender(e ->> 'name') from jsonb_array_elements(p_schedules) e where e ->> 'queue' is not null limit 1;
    -- In one order, so that two declare without a deadlock.
    for d in select e ->> 'name' as name, e ->> 'queue' as queue, e -> 'payload' as payload, e ->> 'cron' as cron,
                    (e ->> 'every_sec')::numeric as every_sec, e ->> 'tz' as tz, e ->> 'missed' as missed, e ->> 'overlap' as overlap
               from jsonb_array_elements(p_schedules) e order by 1 loop
        if not p_again then
            insert into redrive.schedule (name, queue, payload, cron, every_sec, tz, missed, overlap, declared_at, base_at, upheld_at)
                 values (d.name, d.queue, d.payload, d.cron, d.every_sec, d.tz, d.missed, d.overlap, v_now, v_now, v_now)
            on conflict do nothing;
            if found then
                return query select d.name, 'new';
                continue;
            end if;
        end if;
        select * into s from redrive.schedule r where r.name = d.name;
        continue when not found;
        if (s.queue, s.payload, s.cron, s.every_sec, s.tz, s.missed, s.overlap)
           is not distinct from (d.queue, d.payload, d.cron, d.every_sec, d.tz, d.missed, d.overlap) then
            update redrive.schedule r set upheld_at = v_now
             where r.name in (select u.name from redrive.schedule u
                               where u.name = d.name and u.upheld_at not between v_now - interval '5 seconds' and v_now for update skip locked);
            continue;
        elsif p_again and s.upheld_at between v_now - interval '30 seconds' and v_now + interval '30 seconds' then
            return query select d.name, 'other';
            continue;
        elsif p_again then
            perform from redrive.schedule r where r.name = d.name for update skip locked;
            continue when not found;
        end if;
        update redrive.schedule r
           set payload = d.payload, missed = d.missed, overlap = d.overlap, declared_at = v_now, upheld_at = v_now,
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
revoke all on function redrive.declare_schedules(jsonb, boolean) from public;
