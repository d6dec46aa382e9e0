-- _pick_spent: lock up to 1,000 messages that are over their budget, no further than claim has looked.
create function redrive._pick_spent(q redrive.queue, p_reached timestamptz) returns bigint[]
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids bigint[];
begin
    execute format('select array_agg(p.msg_id) from (select m.msg_id from pgmq.%I m where m.vt <= $1 and %s >= %s
                                                       order by m.vt limit 1000 for update skip locked) p',
                   'q_' || q.queue, redrive._part(q, 'attempt'), q.max_attempts)
       into v_ids using p_reached;
    return v_ids;
end
$$;
revoke all on function redrive._pick_spent(redrive.queue, timestamptz) from public;
