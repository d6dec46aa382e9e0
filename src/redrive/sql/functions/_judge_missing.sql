-- _judge_missing: reports whose message could not be locked: somebody's transaction holds it (locked), this very delivery was
-- reported before (repeat: an answer was lost with its connection), or it is gone (lost): ended by another delivery, by a
-- cancel, or by a claim that found nobody had reported it.
create function redrive._judge_missing(q redrive.queue, p_ids bigint[], p_cts integer[], p_verdicts text[]) returns text[]
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_missing bigint[] := array(select v.id from unnest(p_ids, p_verdicts) v(id, verdict) where v.verdict is null);
    v_there bigint[];
    v_ended bigint[];
    v_enders integer[];
    v_verdicts text[];
begin
    execute format('select array_agg(m.msg_id) from pgmq.%I m where m.msg_id = any ($1)', 'q_' || q.queue) into v_there using v_missing;
    execute format('select array_agg(m.msg_id), array_agg(coalesce(%s, case when m.outcome = any ($2) then m.read_ct else %s end))
                      from pgmq.%I m where m.msg_id = any ($1)', redrive._part(q, 'late'), redrive._part(q, 'settled'), 'a_' || q.queue)
       into v_ended, v_enders using v_missing, case when q.has_headers then array['done', 'ignored'] else array['done', 'ignored', 'dead'] end;
    execute $q$
        select array_agg(coalesce(v.verdict, case when t.id is not null then 'locked' when e.ender = v.ct then 'repeat' else 'lost' end) order by v.n)
          from unnest($1, $2, $3) with ordinality v(id, ct, verdict, n)
          left join unnest($4) t(id) on t.id = v.id
          left join unnest($5, $6) e(id, ender) on e.id = v.id $q$
       into v_verdicts using p_ids, p_cts, p_verdicts, v_there, v_ended, v_enders;
    return v_verdicts;
end
$$;
revoke all on function redrive._judge_missing(redrive.queue, bigint[], integer[], text[]) from public;
