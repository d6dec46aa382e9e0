-- _discard_events: these dead letters will not be sent again: their events need nobody's attention any more, and keep why they
-- failed. Only an event that still names the letter's message: one that was sent again belongs to its newer message.
create function redrive._discard_events(q redrive.queue, p_dead bigint[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    execute format($q$
        update redrive.webhook_event e
           set status = 'ignored', last_error = concat_ws(': ', 'discarded', e.last_error), settled_at = $2
          from (select d.message ->> 'original_msg_id' as original, m.event
                  from pgmq.%I d, lateral (select %s as event from (select d.message -> 'headers' as headers) m) m
                 where d.msg_id = any ($1)) l
         where e.id = l.event and e.msg_id::text = l.original and e.queue = $3 and e.status = 'failed' $q$,
        'q_' || q.queue || '_dlq', redrive._part(q, 'event'))
      using p_dead, redrive.clock(), q.queue;
end
$$;
revoke all on function redrive._discard_events(redrive.queue, bigint[]) from public;
