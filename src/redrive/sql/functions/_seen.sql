-- _seen: a worker asked for messages and got p_got. With none it waits, and senders notify it for the next 30 s;
-- with some it has work in hand and they need not. An idle poll writes only every 15 s. Never waits.
create function redrive._seen(p_queue text, p_worker text, p_now timestamptz, p_got integer) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    w redrive.worker;
    v_row text;
begin
    select * into w from redrive.worker r where r.queue = p_queue and r.worker = p_worker for update skip locked;
    if found and p_got = 0 and w.waiting_until > p_now + interval '15 seconds' then
        return;
    elsif found then
        update redrive.worker r
           set last_seen = p_now, claimed = r.claimed + p_got, waiting_until = case when p_got = 0 then p_now + interval '30 seconds' end
         where r.queue = p_queue and r.worker = p_worker;
    else
        v_row := redrive._count(p_queue, p_worker, p_got, 0, 0, 0, 0);
        update redrive.worker r set waiting_until = case when p_got = 0 then p_now + interval '30 seconds' end
         where r.queue = p_queue and r.worker = v_row;
    end if;
end
$$;
revoke all on function redrive._seen(text, text, timestamptz, integer) from public;
