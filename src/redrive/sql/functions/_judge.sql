-- _judge: lock the reported messages (by id, skipping what others hold) and decide what each report is worth.
-- p_done: ids that have ended already in this call.
create function redrive._judge(q redrive.queue, p_ids bigint[], p_cts integer[], p_outcomes text[], p_durations numeric[], p_done bigint[])
returns redrive._judged
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    j redrive._judged;
begin
    execute format($q$
        with held as materialized (
            select m.msg_id, m.read_ct, %s as settled, %s as attempt, %s as key
              from pgmq.%I m where m.msg_id = any ($1) order by m.msg_id for update skip locked),
        judged as (
            select r.id, r.ct, r.outcome, r.duration, h.key,
                   case when h.msg_id is null then null
                        when h.settled = r.ct and %L then 'repeat'
                        when r.outcome in ('done', 'ignored') then case when h.read_ct = r.ct then 'ok' when h.read_ct > r.ct then 'late' else 'lost' end
                        when h.read_ct <> r.ct then 'lost'
                        when r.outcome in ('reject', 'malformed') then 'dead'
                        when r.outcome in ('retry', 'crashed') and h.attempt >= %s then 'dead'
                        else 'ok' end as verdict
              from unnest($1, $2, $3, $4::double precision[]) r(id, ct, outcome, duration)
              left join held h on h.msg_id = r.id
             where r.id <> all (coalesce($5, '{}')))
        select array_agg(id), array_agg(ct), array_agg(verdict),
               array_agg(id) filter (where outcome in ('done', 'ignored') and verdict in ('ok', 'late')),
               array_agg(duration) filter (where outcome in ('done', 'ignored') and verdict in ('ok', 'late')),
               array_agg(id) filter (where outcome in ('done', 'ignored') and verdict in ('ok', 'late') and key is not null),
               array_agg(key) filter (where outcome in ('done', 'ignored') and verdict in ('ok', 'late') and key is not null),
               coalesce(bool_or(outcome not in ('done', 'ignored') and verdict in ('ok', 'dead')), false), coalesce(bool_or(verdict is null), false)
          from judged $q$,
        redrive._part(q, 'settled'), redrive._part(q, 'attempt'), redrive._part(q, 'key'), 'q_' || q.queue, q.has_headers, q.max_attempts)
       into j.ids, j.cts, j.verdicts, j.finishes, j.durations, j.keyed, j.keys, j.others, j.missing
      using p_ids, p_cts, p_outcomes, p_durations, p_done;
    return j;
end
$$;
revoke all on function redrive._judge(redrive.queue, bigint[], integer[], text[], numeric[], bigint[]) from public;
