-- fire_schedule: send these ticks of a schedule, note those that are let go as missed, and move on to the next one, in one
-- transaction. A tick is fired once, whoever calls and how often; next_at only moves forward. Ticks that wait for the end
-- of the one before are looked at first. What this call did with which tick comes back: nothing where somebody else is firing it at
-- this moment, where it is paused, and where p_revision says that the caller read another cron text.
-- A schedule without a queue has no message: who gets its tick back as sent does the work. One with a queue is fired by roles
-- that may send, too. A queue that is locked is given up after a second.
-- part: work, operate
create function redrive.fire_schedule(
    p_name text, p_ticks timestamptz[], p_next timestamptz default null, p_revision integer default null, p_missed timestamptz[] default '{}')
returns table (tick timestamptz, outcome text, msg_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
    v_now timestamptz := redrive.clock();
    s redrive.schedule;
    v_tick timestamptz;
    v_outcome text;
    v_waiting integer;
begin
    if p_ticks is null or cardinality(p_ticks) > 1000 or cardinality(p_missed) > 1000 then
        perform redrive._refuse('ticks are an array of at most 1000 times');
    elsif v_now < any (p_ticks) or v_now < any (p_missed) then
        perform redrive._refuse(format('schedule %s: a tick lies in the future of this database, where it is %s', p_name, v_now));
    end if;
    select * into s from redrive.schedule r where r.name = p_name for update skip locked;
    if not found then
        if not exists (select from redrive.schedule r where r.name = p_name) then
            perform redrive._no_schedule(p_name);
        end if;
        return;
    elsif s.paused or p_revision <> s.revision then
        return;
    end if;
    s.next_at := redrive._sound(s.next_at);
    perform redrive._check_next(s, p_next, v_now);
    if s.queue is not null then
        perform redrive._check_sender(p_name);
    end if;
    s.unfinished := redrive._unfinished(s);
    for v_tick in select t.tick from redrive.schedule_tick t where t.name = p_name and t.outcome = 'waiting' order by t.tick loop
        exit when cardinality(s.unfinished) > 0;
        s := redrive._send_tick(s, v_tick);
        update redrive.schedule_tick t set outcome = 'sent', msg_id = s.last_msg_id, at = v_now where t.name = p_name and t.tick = v_tick;
        if v_tick = s.last_tick then
            s.last_outcome := 'sent';
        end if;
        return query select v_tick, 'sent', s.last_msg_id;
    end loop;
    select count(*) into v_waiting from redrive.schedule_tick t where t.name = p_name and t.outcome = 'waiting';
    for v_tick, v_outcome in
        select u.tick, min(u.outcome) from (select unnest(p_ticks), 'fire' union all select unnest(p_missed), 'missed') u (tick, outcome)
         where u.tick > coalesce(s.last_tick, '-infinity') and u.tick > s.base_at group by 1 order by 1 loop
        -- Behind a job that never ends the ticks do not pile up for ever.
        v_outcome := case when v_outcome = 'missed' then 'missed'
                          when s.overlap = 'allow' or cardinality(s.unfinished) = 0 and v_waiting = 0 then 'sent'
                          when s.overlap = 'queue' and v_waiting < 1000 then 'waiting' else 'skipped' end;
        insert into redrive.schedule_tick (name, tick, at, outcome) values (p_name, v_tick, v_now, v_outcome) on conflict do nothing;
        continue when not found;
        if v_outcome = 'sent' then
            s := redrive._send_tick(s, v_tick);
            update redrive.schedule_tick t set msg_id = s.last_msg_id where t.name = p_name and t.tick = v_tick;
        elsif v_outcome = 'waiting' then
            v_waiting := v_waiting + 1;
        end if;
        s.last_outcome := v_outcome;
        return query select v_tick, v_outcome, case when v_outcome = 'sent' then s.last_msg_id end;
    end loop;
    update redrive.schedule r
       set next_at = greatest(s.next_at, p_next), last_msg_id = s.last_msg_id, last_outcome = s.last_outcome, unfinished = s.unfinished,
           last_tick = greatest(r.last_tick, (select max(u) from unnest(p_ticks || p_missed) u where u > s.base_at))
     where r.name = p_name;
end
$$;
revoke all on function redrive.fire_schedule(text, timestamptz[], timestamptz, integer, timestamptz[]) from public;
