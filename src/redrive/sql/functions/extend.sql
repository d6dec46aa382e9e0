-- extend: the heartbeat. Returns the ids still owned by these deliveries; their visibility timeout then ends p_vt seconds from
-- now at the earliest (never sooner than it did), their keys' leases and a single-flight lease with it.
-- Never waits: a row that its own handler's transaction holds counts as owned.
-- part: work
create function redrive.extend(p_queue text, p_msg_ids bigint[], p_read_cts integer[], p_vt numeric) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
    v_now timestamptz := redrive.clock();
    v_until timestamptz;
    v_ids bigint[];
    v_keys text[];
    v_owners bigint[];
    v_locked bigint[];
begin
    if p_vt is null or p_vt < 1 or p_vt > 3155760000 or cardinality(p_msg_ids) is distinct from cardinality(p_read_cts) then
        perform redrive._refuse(format('extend takes as many read_cts as message ids, and a visibility timeout >= 1 second, not %s', coalesce(p_vt::text, 'null')));
    end if;
    q := redrive._policy_of(p_queue);
    v_until := v_now + make_interval(secs => p_vt::float8);
    -- By id, not by ctid: a beat of the same moment (a handler's own extend) may have moved the row since this statement's
    -- snapshot. An update by id follows it; by ctid it would find nothing, and the message would look lost.
    execute format($q$
        with r as (select * from unnest($1, $2) r(id, ct)),
             held as materialized (
                 select m.msg_id from pgmq.%I m where m.msg_id = any ($1) order by m.msg_id for update skip locked),
             beaten as (
                 update pgmq.%I m set vt = greatest(m.vt, $3) from held, r
                  where m.msg_id = held.msg_id and r.id = held.msg_id and m.read_ct = r.ct and %s < r.ct
                 returning m.msg_id, %s as key),
             busy as (
                 select m.msg_id, %s as key from pgmq.%I m join r on r.id = m.msg_id
                  where m.msg_id = any ($1) and m.read_ct = r.ct and %s < r.ct and m.msg_id not in (select msg_id from held))
        select array_agg(msg_id), array_agg(key) filter (where key is not null),
               array_agg(msg_id) filter (where key is not null and not locked), array_agg(msg_id) filter (where key is not null and locked)
          from (select msg_id, key, false as locked from beaten union all select msg_id, key, true from busy) o $q$,
        'q_' || p_queue, 'q_' || p_queue, redrive._part(q, 'settled'), redrive._part(q, 'key'),
        redrive._part(q, 'key'), 'q_' || p_queue, redrive._part(q, 'settled'))
       into v_ids, v_keys, v_owners, v_locked using p_msg_ids, p_read_cts, v_until;
    if v_keys is not null then
        -- Of a locked row only a key that is half over: it may be a settle that holds the row, and wants to free the key this moment.
        execute 'with mine as (select k.key from redrive.key k
                                where k.queue = $1 and k.key = any ($2) and k.state = ''running''
                                  and (k.owner_msg = any ($3) or k.owner_msg = any ($5) and k.lease_until < $6)
                                order by k.key for update skip locked)
                 update redrive.key k set lease_until = greatest(k.lease_until, $4) from mine
                  where k.queue = $1 and k.key = any ($2) and k.key = mine.key'
          using p_queue, v_keys, v_owners, v_until, v_locked, v_now + (v_until - v_now) / 2;
    end if;
    if q.single_flight and v_ids is not null then
        update redrive.lease l set lease_until = greatest(l.lease_until, v_until)
         where l.name = (select h.name from redrive.lease h where h.name = 'queue:' || p_queue for update skip locked);
    end if;
    return query select unnest(v_ids);
end
$$;
revoke all on function redrive.extend(text, bigint[], integer[], numeric) from public;
