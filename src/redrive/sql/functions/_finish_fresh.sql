-- _finish_fresh: the common case of settle in one statement: done reports of first deliveries that were never reported and
-- have no key. Returns the ids that ended so; all others are left to the full judgement. In an inbox what was ignored is as
-- common as what was done, and the events move with their messages.
create function redrive._finish_fresh(q redrive.queue, p_ids bigint[], p_cts integer[], p_outcomes text[], p_durations numeric[]) returns bigint[]
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_columns text := redrive._part(q, 'columns');
    v_ids bigint[];
    v_durations double precision[];
    v_ignored bigint[];
    v_outcome text := '''done''';
    v_events text := '';
begin
    if q.inbox then
        select array_agg(r.id), array_agg(r.duration::double precision), array_agg(r.id) filter (where r.outcome = 'ignored') into v_ids, v_durations, v_ignored
          from unnest(p_ids, p_cts, p_outcomes, p_durations) r(id, ct, outcome, duration) where r.outcome in ('done', 'ignored') and r.ct = 1;
        v_outcome := 'case when gone.msg_id = any ($4) then ''ignored'' else ''done'' end';
        v_events := format(
            ', ends as materialized (select m.msg_id, %s as event from gone m),
               moved as (update redrive.webhook_event e
                            set status = case when e.msg_id = any ($4) then ''ignored'' else ''processed'' end, attempts = 1, last_error = null, settled_at = $3
                           from ends m where e.id = m.event and e.msg_id = m.msg_id and e.queue = %L)',
            redrive._part(q, 'event'), q.queue);
    else
        select array_agg(r.id), array_agg(r.duration::double precision) into v_ids, v_durations
          from unnest(p_ids, p_cts, p_outcomes, p_durations) r(id, ct, outcome, duration) where r.outcome = 'done' and r.ct = 1;
    end if;
    execute format($q$
        with gone as (
                 delete from pgmq.%I m
                  where m.ctid = any (array(select m.ctid from pgmq.%I m where m.msg_id = any ($1) and m.read_ct = 1 and %s is null and %s = 0
                                             for update skip locked))
                 returning %s) %s %s
        select array_agg(msg_id) from gone $q$,
        'q_' || q.queue, 'q_' || q.queue, redrive._part(q, 'key'), redrive._part(q, 'settled'), v_columns,
        case when q.archive then format(
            ', kept as (insert into pgmq.%I (%s, archived_at, outcome, duration)
                        select %s, $3, %s, d.duration from gone left join unnest($1, $2) d(id, duration) on d.id = gone.msg_id)',
            'a_' || q.queue, v_columns, v_columns, v_outcome) else '' end,
        v_events)
       into v_ids using v_ids, v_durations, redrive.clock(), v_ignored;
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
