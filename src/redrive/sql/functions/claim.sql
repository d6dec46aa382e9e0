-- claim: the worker's read. Up to p_qty messages that are due, oldest due first, made invisible for p_vt seconds.
-- Never waits for a lock, and its cost does not grow with what is parked: `vt <= $1` is an index condition, since the clock
-- is read once into a variable. Messages whose budget is spent become dead letters here, without a run, and do not shrink
-- the batch; those whose key is done end as duplicate, those whose key is busy are postponed at no charge.
-- A webhook event of over 1 MB is a batch of its own: it waits until it is the longest due, and then comes alone.
-- due_at is vt as it was found: release gives it back. isolated: the last two deliveries ended without a report.
-- part: work
create function redrive.claim(p_queue text, p_vt numeric, p_qty integer, p_worker text)
returns table (msg_id bigint, read_ct integer, attempt integer, enqueued_at timestamptz, vt timestamptz, due_at timestamptz,
               message jsonb, headers jsonb, key text, isolated boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    q redrive.queue;
    v_now timestamptz := redrive.clock();
    v_until timestamptz;
    v_pick redrive._picked;
    v_reached timestamptz;
    v_poison boolean := false;
    v_got integer := 0;
    v_looked integer := 0;
    v_more boolean := false;
    v_rows integer;
    v_large boolean;
begin
    if p_qty is null or p_qty < 1 or p_vt is null or p_vt < 1 or p_vt > 3155760000 then
        perform redrive._refuse(format('claim takes a whole number of messages >= 1 and a visibility timeout >= 1 second, not %s and %s',
                                       coalesce(p_qty::text, 'null'), coalesce(p_vt::text, 'null')));
    end if;
    q := redrive._policy_of(p_queue);
    v_until := v_now + make_interval(secs => p_vt::float8);
    if q.paused or (q.single_flight and not redrive._take_flight(p_queue, p_worker, v_until)) then
        return;
    end if;
    if q.large then
        execute format('select m.headers ? ''x-redrive-large'' from pgmq.%I m where m.vt <= $1 order by m.vt limit 1', 'q_' || p_queue)
           into v_large using v_now;
        if v_large then
            p_qty := 1;
            q.large := false;
        end if;
    end if;
    return query select * from redrive._hand_out_fresh(q, p_qty, v_now, v_until);
    get diagnostics v_got = row_count;
    -- The batch is not full: is anything else due? Asked first, since mostly there is not, and a look is a third of a round.
    if v_got < p_qty then
        execute format('select m.vt <= $1 from pgmq.%I m order by m.vt limit 1', 'q_' || p_queue) into v_more using v_now;
    end if;
    -- The rest are retries, keyed messages, or held by others. More than one round only where messages in front
    -- could not be handed out: spent, or their key busy or done. A thousand looked at, and the next claim goes on.
    while v_more and v_got < p_qty and v_looked < greatest(1000, p_qty) loop
        v_pick := redrive._pick(q, v_now, p_qty - v_got, v_poison);
        exit when v_pick.ids is null and v_pick.spent is null;
        v_reached := v_pick.reached;
        v_looked := v_looked + v_pick.found;
        if v_pick.gaps is not null then
            perform redrive._record_crashes(q, v_pick.gaps, v_now);
        end if;
        if v_pick.spent is not null then
            v_poison := true;
            perform redrive._bury_spent(q, v_pick.spent, p_worker);
        end if;
        if v_pick.keys is not null then
            v_pick := redrive._take_keys(q, v_pick, v_now, v_until);
        end if;
        return query select * from redrive._hand_out(q, v_pick, v_now, v_until);
        get diagnostics v_rows = row_count;
        v_got := v_got + v_rows;
        exit when v_pick.found < v_pick.wanted;
    end loop;
    if v_poison then
        perform redrive._bury_spent(q, redrive._pick_spent(q, v_reached), p_worker);
    end if;
    if p_worker is not null then
        perform redrive._seen(p_queue, p_worker, v_now, v_got);
    end if;
end
$$;
revoke all on function redrive.claim(text, numeric, integer, text) from public;
