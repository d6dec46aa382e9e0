-- _seen: a worker asked for messages and got p_got. With none it waits, and senders notify it for the next 30 s;
-- with some it has work in hand and they need not. An idle poll writes only every 15 s.
create function redrive._seen(p_queue text, p_worker text, p_now timestamptz, p_got integer) returns void
language plpgsql set search_path = ''
as $$
begin
    update redrive.worker w
       set last_seen = p_now, claimed = w.claimed + p_got,
           waiting_until = case when p_got = 0 then p_now + interval '30 seconds' end
     where w.queue = p_queue and w.worker = p_worker
       and (p_got > 0 or w.waiting_until is null or w.waiting_until < p_now + interval '15 seconds');
    if not found and not exists (select from redrive.worker w where w.queue = p_queue and w.worker = p_worker) then
        insert into redrive.worker (queue, worker, started_at, last_seen, claimed, waiting_until)
             values (p_queue, p_worker, p_now, p_now, p_got, case when p_got = 0 then p_now + interval '30 seconds' end);
    end if;
end
$$;
revoke all on function redrive._seen(text, text, timestamptz, integer) from public;
