-- release: give deliveries back without charge: visible at once in their old place (p_due: due_at as claim gave it), key freed.
-- Returns the ids given back; the others belong to somebody else, have ended, or are held by a transaction. Never waits.
-- part: work
create function redrive.release(p_queue text, p_msg_ids bigint[], p_read_cts integer[], p_due timestamptz[] default null) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
    v_now timestamptz := redrive.clock();
    v_ids bigint[];
    v_keys text[];
    v_owners bigint[];
begin
    if cardinality(p_msg_ids) is distinct from cardinality(p_read_cts)
       or cardinality(p_msg_ids) is distinct from coalesce(cardinality(p_due), cardinality(p_msg_ids)) then
        perform redrive._refuse('release takes as many read_cts (and due times, if any) as message ids');
    end if;
    q := redrive._policy_of(p_queue);
    execute format($q$
        with held as materialized (
                 select m.msg_id from pgmq.%I m where m.msg_id = any ($1) order by m.msg_id for update skip locked),
             back as (
                 update pgmq.%I m set vt = least($4, coalesce(r.due, m.enqueued_at)) %s from held, unnest($1, $2, $3) r(id, ct, due)
                  where m.msg_id = held.msg_id and r.id = held.msg_id and m.read_ct = r.ct and %s < r.ct
                 returning m.*)
        select array_agg(m.msg_id), array_agg(%s) filter (where %s is not null), array_agg(m.msg_id) filter (where %s is not null) from back m $q$,
        'q_' || p_queue, 'q_' || p_queue,
        case when q.has_headers then format(
            ', headers = %s || jsonb_build_object(''x-redrive-settled'', m.read_ct, ''x-redrive-credit'', %s + 1)',
            redrive._part(q, 'bag'), redrive._part(q, 'credit')) else '' end,
        redrive._part(q, 'settled'), redrive._part(q, 'key'), redrive._part(q, 'key'), redrive._part(q, 'key'))
       into v_ids, v_keys, v_owners using p_msg_ids, p_read_cts, p_due, v_now;
    if v_keys is not null then
        perform redrive._free_keys(p_queue, v_keys, v_owners);
    end if;
    if v_ids is not null then
        perform redrive._wake(p_queue);
    end if;
    return query select unnest(v_ids);
end
$$;
revoke all on function redrive.release(text, bigint[], integer[], timestamptz[]) from public;
