-- _pick: lock the next due messages, in due order, skipping what others hold. p_healthy: leave the spent ones where they are.
create function redrive._pick(q redrive.queue, p_now timestamptz, p_qty integer, p_healthy boolean) returns redrive._picked
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_pick redrive._picked;
    v_spent text := format('%s >= %s', redrive._part(q, 'attempt'), q.max_attempts);
begin
    execute format($q$
        select array_agg(p.tid) filter (where not p.spent), array_agg(p.msg_id) filter (where not p.spent),
               array_agg(p.vt) filter (where not p.spent),
               case when count(p.key) > 0 then array_agg(p.key) filter (where not p.spent) end,
               array_agg(p.msg_id) filter (where p.spent), array_agg(p.msg_id) filter (where p.gap),
               max(p.vt), count(*)::integer, $2
          from (select m.ctid as tid, m.msg_id, m.vt, %s as key, %s as spent, %s as gap
                  from pgmq.%I m where m.vt <= $1 %s %s order by m.vt limit $2 for update skip locked) p
        $q$, redrive._part(q, 'key'), v_spent, redrive._part(q, 'gap'), 'q_' || q.queue, redrive._part(q, 'small'),
             case when p_healthy then 'and not ' || v_spent else '' end)
       into v_pick.tids, v_pick.ids, v_pick.dues, v_pick.keys, v_pick.spent, v_pick.gaps, v_pick.reached, v_pick.found, v_pick.wanted
      using p_now, p_qty;
    return v_pick;
end
$$;
revoke all on function redrive._pick(redrive.queue, timestamptz, integer, boolean) from public;
