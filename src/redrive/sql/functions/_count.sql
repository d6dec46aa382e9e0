-- _count: add to a worker's counters and note that it was seen. Never waits: where a handler's transaction has completed its
-- job and holds the worker's row, the counts go to a row of this connection's own; metrics sum them, worker_stop folds them.
-- Returns the row it wrote to.
create function redrive._count(p_queue text, p_worker text, p_claimed integer, p_done integer, p_failed integer, p_dead integer, p_given_back integer)
returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
    v_row text := p_worker;
begin
    perform from redrive.worker w where w.queue = p_queue and w.worker = v_row for update skip locked;
    if not found and exists (select from redrive.worker w where w.queue = p_queue and w.worker = v_row) then
        v_row := p_worker || '#' || pg_backend_pid();
    end if;
    update redrive.worker w
       set last_seen = v_now, claimed = w.claimed + p_claimed, done = w.done + p_done, failed = w.failed + p_failed,
           dead = w.dead + p_dead, given_back = w.given_back + p_given_back
     where w.queue = p_queue and w.worker = v_row;
    if not found then
        insert into redrive.worker (queue, worker, started_at, last_seen, claimed, done, failed, dead, given_back)
             values (p_queue, v_row, v_now, v_now, p_claimed, p_done, p_failed, p_dead, p_given_back)
        on conflict do nothing;
    end if;
    return v_row;
end
$$;
revoke all on function redrive._count(text, text, integer, integer, integer, integer, integer) from public;
