-- read_with_dlq: the article's read: up to p_qty messages, each at most once a call, p_vt seconds invisible (0 is allowed).
-- The budget is counted in attempts: reads 1 to p_max_read_ct hand a message out, the next one makes it a dead letter
-- (reason failed: its callers never report) in this statement, without shrinking the batch; at most 1,000 a call.
-- A missing dead-letter queue blocks nothing: such messages are put back for five minutes. Honours pause; keys are the caller's.
-- Whoever reads counts as a worker of the queue (_note_reader).
-- part: work
create function redrive.read_with_dlq(p_queue_name text, p_vt integer default 60, p_qty integer default 5, p_max_read_ct integer default 5)
returns table (msg_id bigint, read_ct integer, enqueued_at timestamptz, vt timestamptz, message jsonb, headers jsonb, attempt integer, key text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    q redrive.queue := redrive._known(p_queue_name);
    v_now timestamptz := redrive.clock();
    v_until timestamptz;
    v_pick redrive._picked;
    v_got integer := 0;
    v_rows integer;
    v_reached timestamptz;
    v_poison boolean := false;
    v_seen bigint[] := '{}'::bigint[];
begin
    if p_vt is null or p_vt < 0 or p_qty is null or p_qty < 1 or p_max_read_ct is null or p_max_read_ct < 1 then
        perform redrive._refuse(format('read_with_dlq takes p_vt >= 0 seconds, p_qty >= 1 and p_max_read_ct >= 1, not %s, %s and %s',
            coalesce(p_vt::text, 'null'), coalesce(p_qty::text, 'null'), coalesce(p_max_read_ct::text, 'null')));
    end if;
    perform redrive._note_reader(q.queue, v_now);
    if q.paused then
        return;
    end if;
    perform redrive._ensure_archive(q);
    q.max_attempts := p_max_read_ct;
    q.large := false;
    v_until := v_now + make_interval(secs => p_vt);
    for v_round in 1 .. 2 loop
        v_pick := redrive._pick(q, v_now, p_qty - v_got, v_poison);
        exit when v_pick.ids is null and v_pick.spent is null;
        v_reached := v_pick.reached;
        if v_pick.spent is not null then
            v_poison := true;
            perform redrive._bury(q, v_pick.spent, array(select 'failed' from unnest(v_pick.spent)));
        end if;
        -- With p_vt 0 what was handed out stays visible: the second round must not take it again.
        select array_agg(p.tid), array_agg(p.id), array_agg(p.due) into v_pick.tids, v_pick.ids, v_pick.dues
          from unnest(v_pick.tids, v_pick.ids, v_pick.dues) p(tid, id, due) where p.id <> all (v_seen);
        v_seen := v_seen || v_pick.ids;
        v_pick.gaps := null;
        return query select h.msg_id, h.read_ct, h.enqueued_at, h.vt, h.message, h.headers, h.attempt, h.key
                       from redrive._hand_out(q, v_pick, v_now, v_until) h;
        get diagnostics v_rows = row_count;
        v_got := v_got + v_rows;
        exit when v_got >= p_qty or not v_poison;
    end loop;
    if v_poison then
        v_pick.spent := redrive._pick_spent(q, v_reached);
        perform redrive._bury(q, v_pick.spent, array(select 'failed' from unnest(v_pick.spent)));
    end if;
end
$$;
revoke all on function redrive.read_with_dlq(text, integer, integer, integer) from public;
