-- import_dead_letters: take dead letters that somebody else's worker put into a queue of pgmq's, as dead letters of p_queue: at most
-- p_limit of those after p_after, in the order of their ids, each moved in this transaction (its own row is kept in the archive of p_from).
-- One row a message looked at: imported (dead_id is the new letter), no envelope (left: neither {original_msg_id, payload, ..} nor
-- {payload, attempts}), in flight (left: somebody has read it and may be sending it again) or locked (left). With p_dry_run nothing
-- is changed, and imported means would be.
-- part: operate
create function redrive.import_dead_letters(p_from text, p_queue text, p_after bigint default null, p_limit integer default 200, p_dry_run boolean default false)
returns table (msg_id bigint, dead_id bigint, status text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    q redrive.queue := redrive._policy_of(p_queue);
    v_name constant text := 'q_' || coalesce(lower(p_from), '');
    v_dlq constant text := 'q_' || p_queue || '_dlq';
    v_table constant regclass := to_regclass(format('pgmq.%I', v_name));
    v_now timestamptz := redrive.clock();
    v_ids bigint[];
    v_fit bigint[];
    v_new bigint[];
    v_letter constant text := 'jsonb_typeof(m.message) = ''object'' and m.message ? ''payload''
        and (m.message ->> ''original_msg_id'' ~ ''^[0-9]{1,18}$'' or m.message ->> ''attempts'' ~ ''^[0-9]{1,9}$'')';
begin
    if p_limit is null or p_limit not between 1 and 1000 then
        perform redrive._refuse(format('limit is %s; it must be a whole number from 1 to 1000', coalesce(p_limit::text, 'null')));
    elsif p_from is null or lower(p_from) = p_queue then
        perform redrive._refuse(format('dead letters of queue %s cannot be taken from %s; name the queue that they were put into',
                                       p_queue, case when p_from is null then 'null' else 'the queue itself' end));
    elsif exists (select from redrive.queue s where s.queue || '_dlq' = lower(p_from)) then
        perform redrive._refuse(format('queue %s has the dead letters of %s already; see redrive dlq list %2$s', p_from, left(lower(p_from), -4)));
    elsif exists (select from redrive.queue s where s.queue = lower(p_from)) then
        perform redrive._refuse(format('queue %s is one of redrive''s: its messages are jobs that are still to run, no dead letters; name the queue that '
                                       'somebody else''s worker put dead letters into', p_from));
    elsif v_table is null or not exists (select from pgmq.meta m where lower(m.queue_name) = lower(p_from)) then
        raise exception 'pgmq has no queue %; name one that redrive queue list shows', p_from using errcode = 'RD001';
    elsif to_regclass(format('pgmq.%I', v_dlq)) is null then
        raise exception 'the dead-letter queue of % is missing; run: redrive queue create %', p_queue, p_queue using errcode = 'RD002';
    elsif row_security_active(v_table) or not pg_has_role(current_user, (select relowner from pg_class where oid = v_table), 'usage') then
        raise exception 'role % neither owns the tables of queue % nor bypasses their row security; let their owner own schema redrive',
            current_user, p_from using errcode = 'RD002';
    end if;
    execute format('select array_agg(m.msg_id order by m.msg_id), array_agg(m.msg_id order by m.msg_id) filter (where m.vt <= $3 and %s)
                      from (select * from pgmq.%I m where m.msg_id > coalesce($1, 0) order by m.msg_id limit $2) m', v_letter, v_name)
       into v_ids, v_fit using p_after, p_limit, v_now;
    if not p_dry_run then
        execute format('select array_agg(m.msg_id) from (select m.msg_id from pgmq.%I m where m.msg_id = any ($1) and m.vt <= $2
                                                           order by m.msg_id for update skip locked) m', v_name)
           into v_fit using v_fit, v_now;
        v_new := redrive._import_letters(q, p_from, v_fit);
        perform pgmq.archive(p_from, v_fit);
    end if;
    for msg_id, dead_id, status in execute format($q$
        select i.id, n.new, case when n.id is not null then 'imported' when m.vt > $4 then 'in flight' when %s then 'locked' else 'no envelope' end
          from unnest($1) i(id)
          left join unnest($2, $3) n(id, new) on n.id = i.id
          left join pgmq.%I m on m.msg_id = i.id
         where n.id is not null or m.msg_id is not null
         order by i.id $q$, v_letter, v_name)
      using v_ids, v_fit, v_new, v_now
    loop
        return next;
    end loop;
end
$$;
revoke all on function redrive.import_dead_letters(text, text, bigint, integer, boolean) from public;
