-- purge_count: how many rows purge would delete now, and the oldest and newest of their times. Counts them one by one.
-- part: operate, read
create function redrive.purge_count(p_what text, p_queue text default null, p_older_than interval default null,
                                    out total bigint, out oldest timestamptz, out newest timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
as $$
declare
    v_before timestamptz := redrive._purge_before(p_what, p_queue, p_older_than);
    t record;
    v_count bigint;
    v_first timestamptz;
    v_last timestamptz;
begin
    total := 0;
    if p_what = 'sent_keys' then
        for t in select distinct s.queue from redrive.sent_key s where p_queue is null or s.queue = p_queue loop
            if to_regclass(format('pgmq.%I', 'q_' || t.queue)) is null then
                execute 'select count(*) from redrive.sent_key s where s.queue = $1' into v_count using t.queue;
            else
                execute format('select count(*) from redrive.sent_key s
                                 where s.queue = $1 and not exists (select from pgmq.%I m where m.msg_id = any (s.msg_ids))', 'q_' || t.queue)
                   into v_count using t.queue;
            end if;
            total := total + v_count;
        end loop;
        return;
    end if;
    for t in select * from redrive._targets(p_what, p_queue) loop
        begin
            execute format('select count(*), min(%1$s)::timestamptz, max(%1$s)::timestamptz from %2$s t where %3$s',
                           t.sort, t.relation, t.condition) into v_count, v_first, v_last using v_before;
        exception when lock_not_available then
            raise exception '%', redrive._purge_trouble(t.known_as, '55P03', null, null, null) using errcode = '55P03';
        end;
        total := total + v_count;
        oldest := least(oldest, v_first);
        newest := greatest(newest, v_last);
    end loop;
end
$$;
revoke all on function redrive.purge_count(text, text, interval) from public;
