-- _finish_fresh: the common case of settle in one statement: done reports of first deliveries that were never reported and
-- have no key. Returns the ids that ended so; all others are left to the full judgement.
create function redrive._finish_fresh(q redrive.queue, p_ids bigint[], p_cts integer[], p_outcomes text[], p_durations numeric[]) returns bigint[]
language plpgsql set search_path = ''
as $$
declare
    v_columns text := redrive._part(q, 'columns');
    v_ids bigint[];
    v_durations double precision[];
begin
    select array_agg(r.id), array_agg(r.duration::double precision) into v_ids, v_durations
      from unnest(p_ids, p_cts, p_outcomes, p_durations) r(id, ct, outcome, duration) where r.outcome = 'done' and r.ct = 1;
    execute format($q$
        with gone as (
                 delete from pgmq.%I m
                  where m.ctid = any (array(select m.ctid from pgmq.%I m where m.msg_id = any ($1) and m.read_ct = 1 and %s is null and %s = 0
                                             for update skip locked))
                 returning %s) %s
        select array_agg(msg_id) from gone $q$,
        'q_' || q.queue, 'q_' || q.queue, redrive._part(q, 'key'), redrive._part(q, 'settled'), v_columns,
        case when q.archive then format(
            ', kept as (insert into pgmq.%I (%s, archived_at, outcome, duration)
                        select %s, $3, ''done'', d.duration from gone left join unnest($1, $2) d(id, duration) on d.id = gone.msg_id)',
            'a_' || q.queue, v_columns, v_columns) else '' end)
       into v_ids using v_ids, v_durations, redrive.clock();
    return v_ids;
exception
    -- The archive of a restored queue knows this id already: _finish replaces the older row, at a cost nobody else should pay.
    when unique_violation then
        return null;
    -- Somebody dropped the queue and made it again with pgmq alone.
    when undefined_column then
        perform redrive._prepare_tables(q.queue, false);
        return null;
end
$$;
revoke all on function redrive._finish_fresh(redrive.queue, bigint[], integer[], text[], numeric[]) from public;
