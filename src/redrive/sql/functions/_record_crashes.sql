-- _record_crashes: the last delivery of these messages ended without a report: its worker died or lost it. Into the history.
create function redrive._record_crashes(q redrive.queue, p_ids bigint[], p_now timestamptz) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    execute format($q$
        insert into redrive.attempt (queue, msg_id, read_ct, attempt, at, error_type, error)
        select $2, m.msg_id, m.read_ct, %s, $3, 'crashed', 'the delivery ended without a report: its worker died or lost it'
          from pgmq.%I m where m.msg_id = any ($1) and %s
        on conflict do nothing $q$, redrive._part(q, 'attempt'), 'q_' || q.queue, redrive._part(q, 'gap'))
      using p_ids, q.queue, p_now;
    if q.inbox then
        perform redrive._fail_events(q, p_ids);
    end if;
end
$$;
revoke all on function redrive._record_crashes(redrive.queue, bigint[], timestamptz) from public;
