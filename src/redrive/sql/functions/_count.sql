-- _count: add to a worker's counters; its row is its own, so nobody waits for it.
create function redrive._count(p_queue text, p_worker text, p_done integer, p_failed integer, p_dead integer, p_given_back integer) returns void
language plpgsql set search_path = ''
as $$
declare
    v_now timestamptz := redrive.clock();
begin
    update redrive.worker w
       set last_seen = v_now, done = w.done + p_done, failed = w.failed + p_failed, dead = w.dead + p_dead, given_back = w.given_back + p_given_back
     where w.queue = p_queue and w.worker = p_worker;
    if not found then
        insert into redrive.worker (queue, worker, started_at, last_seen, done, failed, dead, given_back)
             values (p_queue, p_worker, v_now, v_now, p_done, p_failed, p_dead, p_given_back)
        on conflict do nothing;
    end if;
end
$$;
revoke all on function redrive._count(text, text, integer, integer, integer, integer) from public;
