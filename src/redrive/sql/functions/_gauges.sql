-- _gauges: the numbers of one queue. Ready and waiting are counted along the vt index, soonest first, to 10,000; how far attempts
-- have got is asked of the 1,000 longest ready and of those waiting; what the statistics know is not counted.
-- failed: the most failed attempts of a message; live: how many are in the table, null where the count stopped; sent: ids given out.
create function redrive._gauges(q redrive.queue, out ready bigint, out delayed bigint, out in_flight bigint, out dead bigint, out parked bigint,
                                out oldest_ready_age_sec double precision, out max_attempt integer, out last_done_at timestamptz, out more boolean,
                                out failed integer, out live bigint, out sent bigint, out archive_rows bigint, out archive_bytes bigint,
                                out dead_tuples bigint)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
    v_table regclass := format('pgmq.%I', 'q_' || q.queue)::regclass;
    v_archive regclass := format('pgmq.%I', 'a_' || q.queue)::regclass;
    v_dlq text := 'q_' || q.queue || '_dlq';
    v_attempt text := redrive._part(q, 'attempt');
    v_waiting bigint;
    v_oldest timestamptz;
    v_spent bigint;
begin
    execute format('select count(*), min(m.vt) from (select m.vt from pgmq.%I m where m.vt <= $1 order by m.vt limit 10000) m', 'q_' || q.queue)
       into ready, v_oldest using v_now;
    execute format('select count(*), count(*) filter (where m.running), max(m.attempt), count(*) filter (where m.attempt >= $2 and not m.running),
                           max(m.attempt - m.running::integer)
                      from (select m.read_ct > %s as running, %s as attempt from pgmq.%I m where m.vt > $1 order by m.vt limit 10000) m',
                   redrive._part(q, 'settled'), v_attempt, 'q_' || q.queue)
       into v_waiting, in_flight, max_attempt, v_spent, failed using v_now, q.max_attempts;
    execute format('select greatest($1, max(m.attempt)), greatest($3, max(m.attempt))
                      from (select %s as attempt from pgmq.%I m where m.vt <= $2 order by m.vt limit 1000) m', v_attempt, 'q_' || q.queue)
       into max_attempt, failed using max_attempt, v_now, failed;
    if to_regclass(format('pgmq.%I', v_dlq)) is null then
        dead := 0;
        parked := v_spent;
    else
        execute format('select count(*) from (select from pgmq.%I limit 10000) m', v_dlq) into dead;
        parked := 0;
    end if;
    delayed := v_waiting - in_flight - parked;
    oldest_ready_age_sec := redrive._age(v_now, v_oldest);
    -- Not past 10,000 here either: an adopted queue's archive may hold millions of which none has an outcome.
    execute format('select m.archived_at from (select m.archived_at, m.outcome from pgmq.%I m order by m.archived_at desc limit 10000) m
                     where m.outcome in (''done'', ''ignored'') and isfinite(m.archived_at) order by m.archived_at desc limit 1', 'a_' || q.queue)
       into last_done_at;
    more := greatest(ready, v_waiting, dead) >= 10000;
    live := case when greatest(ready, v_waiting) < 10000 then ready + v_waiting end;
    max_attempt := coalesce(max_attempt, 0);
    failed := coalesce(failed, 0);
    sent := redrive._sent(v_table);
    archive_rows := redrive._rows_about(v_archive);
    archive_bytes := pg_total_relation_size(v_archive);
    dead_tuples := pg_stat_get_dead_tuples(v_table);
end
$$;
revoke all on function redrive._gauges(redrive.queue) from public;
