-- _forget_queue: nothing remembers that a queue of this name existed: a new one starts its ids at 1.
create function redrive._forget_queue(p_queue text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    update redrive.webhook_event e set status = 'failed', last_error = 'its queue was dropped', settled_at = redrive.clock()
     where e.queue = p_queue and e.status = 'received' and exists (select from redrive.queue q where q.queue = p_queue and q.inbox);
    delete from redrive.queue q where q.queue = p_queue;
    delete from redrive.attempt a where a.queue = p_queue;
    delete from redrive.key k where k.queue = p_queue;
    delete from redrive.sent_key s where s.queue = p_queue;
    delete from redrive.worker w where w.queue = p_queue;
    delete from redrive.sample s where s.queue = p_queue;
    delete from redrive.redriven r where r.queue = p_queue;
    delete from redrive.lease l where l.name = 'queue:' || p_queue;
end
$$;
revoke all on function redrive._forget_queue(text) from public;
