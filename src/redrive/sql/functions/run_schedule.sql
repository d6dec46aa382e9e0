-- run_schedule: a tick by hand, now, also of one that is paused and whatever is still running: the message's id.
-- One of redrive's own is due at once instead, for whichever process does it: what stands as next_at is a tick. Null then.
-- part: operate
create function redrive.run_schedule(p_name text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
as $$
declare
    v_now timestamptz := redrive.clock();
    s redrive.schedule;
begin
    select * into s from redrive.schedule r where r.name = p_name for update;
    if not found then
        perform redrive._no_schedule(p_name);
    elsif s.queue is null then
        if s.paused then
            perform redrive._refuse(format('schedule %s is paused, and is done by whoever gets its tick; run: redrive schedule resume %s', p_name, p_name));
        end if;
        update redrive.schedule r set next_at = least(r.next_at, v_now) where r.name = p_name;
        return null;
    end if;
    s.unfinished := redrive._unfinished(s);
    s := redrive._send_tick(s, v_now);
    insert into redrive.schedule_tick (name, tick, msg_id, at, outcome) values (p_name, v_now, s.last_msg_id, v_now, 'sent') on conflict do nothing;
    update redrive.schedule r set last_msg_id = s.last_msg_id, last_outcome = 'sent', unfinished = s.unfinished where r.name = p_name;
    return s.last_msg_id;
end
$$;
revoke all on function redrive.run_schedule(text) from public;
