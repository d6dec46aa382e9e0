-- _end_events: these messages end with this outcome, and with them the events they are the jobs of. Only an event that still names
-- the message moves: one that was sent again belongs to its newer message. The messages' rows are there, and the caller
-- holds them: so nobody else writes these events, and the update waits for nobody.
create function redrive._end_events(q redrive.queue, p_ids bigint[], p_outcome text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    execute format($q$
        with m as materialized (select m.msg_id, %s as attempt, %s as event from pgmq.%I m where m.msg_id = any ($1))
        update redrive.webhook_event e
           set status = $2, attempts = m.attempt, settled_at = $3,
               last_error = case $4 when 'dead' then coalesce(e.last_error, 'its attempts are used up, and nobody reported why they failed')
                                    when 'cancelled' then 'cancelled' end
          from m where e.id = m.event and e.msg_id = m.msg_id and e.queue = $5 $q$,
        redrive._part(q, 'attempt'), redrive._part(q, 'event'), 'q_' || q.queue)
      using p_ids, case when p_outcome in ('done', 'duplicate') then 'processed' when p_outcome = 'dead' then 'failed' else 'ignored' end,
            redrive.clock(), p_outcome, q.queue;
end
$$;
revoke all on function redrive._end_events(redrive.queue, bigint[], text) from public;
