-- _bury_spent: claim found these over their budget: dead as crashed where nobody reported the last delivery, else as failed.
create function redrive._bury_spent(q redrive.queue, p_ids bigint[], p_worker text) returns void
language plpgsql set search_path = ''
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
    execute format('select array_agg(m.msg_id), array_agg(case when %s then ''crashed'' else ''failed'' end) from pgmq.%I m where m.msg_id = any ($1)',
                   redrive._part(q, 'gap'), 'q_' || q.queue)
       into v_ids, v_reasons using p_ids;
    v_dead := redrive._bury(q, v_ids, v_reasons);
    if p_worker is not null then
        perform redrive._count(q.queue, p_worker, 0, 0, 0, v_dead, 0);
    end if;
end
$$;
revoke all on function redrive._bury_spent(redrive.queue, bigint[], text) from public;
