-- _send_tick: the message of one tick, and the schedule as it is then. Its own functions get {"schedule", "tick"}, a job its payload.
create function redrive._send_tick(s redrive.schedule, p_tick timestamptz) returns redrive.schedule
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if s.queue is not null then
        s.last_msg_id := redrive.send(s.queue, coalesce(s.payload, jsonb_build_object(
            'schedule', s.name, 'tick', replace(to_char(p_tick at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '.000000', '') || 'Z')));
        if s.overlap <> 'allow' then
            s.unfinished := s.unfinished || s.last_msg_id;
        end if;
    end if;
    return s;
end
$$;
revoke all on function redrive._send_tick(redrive.schedule, timestamptz) from public;
