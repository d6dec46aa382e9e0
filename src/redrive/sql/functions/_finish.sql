-- _finish: the one way out. Every end of a message passes here: the row leaves the queue, is kept in the archive with its
-- outcome and duration (unless the policy says delete), its key is completed or freed, its sent key forgotten, its event moved.
-- The caller holds the rows' locks. p_outcome: done, ignored, duplicate, cancelled or dead.
create function redrive._finish(q redrive.queue, p_ids bigint[], p_outcome text, p_durations double precision[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_columns text := redrive._part(q, 'columns');
    v_gone text := format('with gone as (delete from pgmq.%I m where m.msg_id = any ($1) returning %s, %s as key)',
                          'q_' || q.queue, v_columns, redrive._part(q, 'key'));
    v_keyed text := ' select array_agg(key), array_agg(msg_id) from gone where key is not null';
    v_keys text[];
    v_owners bigint[];
begin
    if q.inbox then
        perform redrive._end_events(q, p_ids, p_outcome);
    end if;
    if not q.archive then
        execute v_gone || v_keyed into v_keys, v_owners using p_ids;
    else
        -- A restored queue whose ids began again meets its own archive: the newer end replaces the older row, since
        -- an error here would make every later end of that queue fail.
        execute v_gone || format(
            ', kept as (insert into pgmq.%I (%s, archived_at, outcome, duration)
                        select %s, $4, $2, %s from gone %s
                        on conflict (msg_id) do update set (%s, archived_at, outcome, duration) = (%s, excluded.archived_at, excluded.outcome, excluded.duration))',
            'a_' || q.queue, v_columns, v_columns,
            case when p_durations is null then 'null' else 'd.duration' end,
            case when p_durations is null then '' else 'left join unnest($1, $3) d(id, duration) on d.id = gone.msg_id' end,
            v_columns, 'excluded.' || replace(v_columns, ', ', ', excluded.')) || v_keyed
           into v_keys, v_owners using p_ids, p_outcome, p_durations, redrive.clock();
    end if;
    if v_keys is not null then
        perform redrive._finish_keys(q, v_keys, v_owners, p_outcome);
    end if;
end
$$;
revoke all on function redrive._finish(redrive.queue, bigint[], text, double precision[]) from public;
