-- _note_reader: somebody works on this queue with read_with_dlq: a worker of that name was seen, noted every 15 s at most, with
-- what lies between two visits (four hours at most: what is longer is a new beginning). Never waits; of a queue redrive does not know nothing is noted.
create function redrive._note_reader(p_queue text, p_now timestamptz) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    w redrive.worker;
begin
    select * into w from redrive.worker r where r.queue = p_queue and r.worker = 'read_with_dlq';
    if found and (w.last_seen <= p_now - interval '15 seconds' or w.last_seen > p_now) then
        perform from redrive.worker r where r.queue = p_queue and r.worker = 'read_with_dlq' for update skip locked;
        if found then
            update redrive.worker r
               set last_seen = p_now, every_sec = case when p_now - w.last_seen between '0' and '4 hours' then extract(epoch from p_now - w.last_seen) end
             where r.queue = p_queue and r.worker = 'read_with_dlq';
        end if;
    elsif w.queue is null and exists (select from redrive.queue q where q.queue = p_queue)
          -- Whoever inserts the same row in an open transaction would be waited for.
          and pg_try_advisory_xact_lock(hashtextextended('redrive.reader:' || p_queue, 0)) then
        insert into redrive.worker (queue, worker, started_at, last_seen) values (p_queue, 'read_with_dlq', p_now, p_now) on conflict do nothing;
    end if;
end
$$;
revoke all on function redrive._note_reader(text, timestamptz) from public;
