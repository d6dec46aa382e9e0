-- _wake: tell a waiting worker, and only then. Every notifying transaction takes one database-wide lock until its commit
-- is on disk, so producers under load would queue on it; a worker with work in hand is not waiting and needs no word.
create function redrive._wake(p_queue text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from redrive.worker w where w.queue = p_queue and w.waiting_until > redrive.clock()) then
        perform pg_notify('redrive', p_queue);
    end if;
end
$$;
revoke all on function redrive._wake(text) from public;
