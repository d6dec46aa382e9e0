-- _bury_spent: claim found these over their budget: dead as crashed where nobody reported the last delivery, else as failed.
create function redrive._bury_spent(q redrive.queue, p_ids bigint[], p_worker text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_reasons text[];
    v_ids bigint[];
    v_dead integer;
begin
    if p_ids is null then
        return;
    end if;
    perform redrive._record_crashes(q, p_ids, redrive.clock());
    -- The history says it too: a message that was parked for want of a dead-letter queue is no gap any more.
    execute format($q$
        select array_agg(m.msg_id), array_agg(case
                   when %s then 'crashed'
                   when exists (select from redrive.attempt a where a.queue = $2 and a.msg_id = m.msg_id and a.read_ct = m.read_ct
                                   and a.error_type = 'crashed') then 'crashed'
                   else 'failed' end)
          from pgmq.%I m where m.msg_id = any ($1) $q$, redrive._part(q, 'gap'), 'q_' || q.queue)
       into v_ids, v_reasons using p_ids, q.queue;
    v_dead := redrive._bury(q, v_ids, v_reasons);
    if p_worker is not null then
        perform redrive._count(q.queue, p_worker, 0, 0, 0, v_dead, 0);
    end if;
end
$$;
revoke all on function redrive._bury_spent(redrive.queue, bigint[], text) from public;
