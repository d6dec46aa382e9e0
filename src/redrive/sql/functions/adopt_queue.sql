-- adopt_queue: take an existing pgmq queue under redrive's policy. Its row security, grants and retention stay as they are.
-- Refused: unlogged, partitioned, a name outside the rule or with a twin by case, and tables whose rows the
-- owner of redrive could not see.
-- part: operate
create function redrive.adopt_queue(p_queue text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '10s'
as $$
declare
    v_twin text;
    v_table regclass := to_regclass(format('pgmq.%I', 'q_' || lower(p_queue)));
begin
    if p_queue is null or p_queue !~ '^[a-z][a-z0-9_-]{0,42}$' or p_queue like '%\_dlq' then
        perform redrive._refuse(format('queue %L cannot be adopted; its name must be a lower-case letter, then lower-case letters, '
            'digits, _ or -, at most 43 characters, not ending in _dlq', p_queue));
    end if;
    perform pg_advisory_xact_lock(hashtextextended('redrive.create_queue', 0));
    select m.queue_name into v_twin from pgmq.meta m where lower(m.queue_name) = p_queue and m.queue_name <> p_queue limit 1;
    if found then
        perform redrive._refuse(format('pgmq lists queue %s, a twin that differs by case only from %s: both are one table; '
            'only a lower-case name without a twin can be adopted', v_twin, p_queue));
    elsif v_table is null or not exists (select from pgmq.meta m where m.queue_name = p_queue) then
        raise exception 'queue % does not exist in pgmq; run: redrive queue create %', p_queue, p_queue using errcode = 'RD001';
    elsif exists (select from pgmq.meta m where m.queue_name = p_queue and (m.is_unlogged or m.is_partitioned))
          or exists (select from pg_class c where c.relnamespace = 'pgmq'::regnamespace
                        and c.relname in ('q_' || p_queue, 'q_' || p_queue || '_dlq') and (c.relpersistence <> 'p' or c.relkind <> 'r' or exists (select from pg_inherits i where i.inhparent = c.oid))) then
        perform redrive._refuse(format('queue %s, or its dead-letter queue, is unlogged, partitioned or in several tables: its messages can vanish; '
            'move them to an ordinary queue', p_queue));
    elsif row_security_active(v_table) or not pg_has_role(current_user, (select relowner from pg_class where oid = v_table), 'usage') then
        raise exception 'role % neither owns the tables of queue % nor bypasses their row security; run migrate and adopt as their owner',
            current_user, p_queue using errcode = 'RD002';
    end if;
    if to_regclass(format('pgmq.%I', 'q_' || p_queue || '_dlq')) is null then
        perform pgmq.create(p_queue || '_dlq');
        perform redrive._prepare_tables(p_queue || '_dlq', true);
    else
        perform redrive._prepare_tables(p_queue || '_dlq', false);
    end if;
    insert into redrive.queue (queue, adopted) values (p_queue, true) on conflict do nothing;
    perform redrive._prepare_tables(p_queue, false);
    perform redrive._apply_policy(p_queue);
end
$$;
revoke all on function redrive.adopt_queue(text) from public;
