-- _hand_out: charge the delivery and make the picked messages invisible. A message whose last two deliveries ended
-- without a report is marked isolated from now on.
create function redrive._hand_out(q redrive.queue, p_pick redrive._picked, p_now timestamptz, p_until timestamptz)
returns table (msg_id bigint, read_ct integer, attempt integer, enqueued_at timestamptz, vt timestamptz, due_at timestamptz,
               message jsonb, headers jsonb, key text, isolated boolean)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_set text := 'vt = $3, read_ct = m.read_ct + 1';
begin
    if p_pick.ids is null then
        return;
    end if;
    if q.has_last_read_at then
        v_set := v_set || ', last_read_at = $4';
    end if;
    if p_pick.gaps is not null then
        v_set := v_set || format(', headers = case when m.read_ct - %s >= 2
            then %s || ''{"x-redrive-isolated": true}'' else m.headers end', redrive._part(q, 'settled'), redrive._part(q, 'bag'));
    end if;
    for msg_id, read_ct, attempt, enqueued_at, vt, due_at, message, headers, key, isolated in execute format($q$
        with m as (
            update pgmq.%I m set %s from unnest($1, $2) p(tid, due) where m.ctid = p.tid
            returning m.*, p.due)
        select m.msg_id, m.read_ct, %s, m.enqueued_at, m.vt, m.due, m.message, %s, %s, %s from m order by m.msg_id
        $q$, 'q_' || q.queue, v_set, redrive._part(q, 'attempt'), redrive._part(q, 'headers'), redrive._part(q, 'key'),
             redrive._part(q, 'isolated'))
      using p_pick.tids, p_pick.dues, p_until, p_now
    loop
        return next;
    end loop;
end
$$;
revoke all on function redrive._hand_out(redrive.queue, redrive._picked, timestamptz, timestamptz) from public;
