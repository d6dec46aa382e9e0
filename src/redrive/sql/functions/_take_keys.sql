-- _take_keys: the keys of picked messages. Keeps in the pick what may run now, ends what is a duplicate of a done key and
-- postpones what must wait (the lease left, 5 s at most, no charge). Never waits: a key row that somebody's
-- transaction holds is busy, and so is a missing one that somebody is about to insert.
create function redrive._take_keys(q redrive.queue, p_pick redrive._picked, p_now timestamptz, p_until timestamptz)
returns redrive._picked
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_keys text[];
    v_held redrive.key[];
    v_new text[];
    v_done bigint[];
    v_busy bigint[];
    v_waits interval[];
begin
    -- Sent past redrive, which refuses them: no index could hold such a key, and an error here would block the queue.
    if exists (select from unnest(p_pick.keys) k where length(k) > 512) then
        p_pick.keys := array(select case when length(k) <= 512 then k end from unnest(p_pick.keys) with ordinality u(k, n) order by n);
    end if;
    v_keys := array(select distinct k from unnest(p_pick.keys) k where k is not null);
    execute 'select array_agg(k) from (select k from redrive.key k where k.queue = $1 and k.key = any ($2) order by k.key for update skip locked) k'
       into v_held using q.queue, v_keys;
    -- Looked up by `= any`, here and wherever keys are joined: a table of keys that was never analyzed is else read whole.
    execute 'with there as materialized (select k.key from redrive.key k where k.queue = $1 and k.key = any ($3)),
             free as (
                 select f.key, min(f.id) as id from unnest($2, $3) f(id, key)
                  where f.key is not null and not exists (select from there t where t.key = f.key)
                  group by f.key order by f.key),
             mine as (select f.key, f.id from free f where pg_try_advisory_xact_lock(hashtextextended($1 || '':'' || f.key, 0))),
             taken as (
                 insert into redrive.key (queue, key, state, owner_msg, lease_until)
                 select $1, m.key, ''running'', m.id, $4 from mine m on conflict do nothing returning key)
             select array_agg(t.key) from taken t'
       into v_new using q.queue, p_pick.ids, p_pick.keys, p_until;
    -- Planned for these very arrays: a cached plan takes them for ten elements long, and joins them row by row.
    execute $q$
        with p as (
            select p.tid, p.id, p.due, p.key, h.state, h.owner_msg, h.lease_until, h.expires_at, h.key is not null as held, n.key is not null as new,
                   row_number() over (partition by p.key order by h.owner_msg = p.id desc nulls last, p.id) as nth
              from unnest($1, $2, $3, $4) p(tid, id, due, key)
              left join unnest($5) h on h.key = p.key
              left join unnest($6) n(key) on n.key = p.key),
        judged as (
            select p.tid, p.id, p.due, p.key,
                   case when p.key is null then 'mine'
                        when p.state = 'done' and p.expires_at > $7 then 'done'
                        when p.nth > 1 then 'busy'
                        when p.new then 'mine'
                        when not p.held then 'busy'
                        when p.owner_msg = p.id or p.state = 'done' or p.lease_until <= $7 then 'mine'
                        else 'busy' end as verdict,
                   least(coalesce(p.lease_until - $7, interval '5 seconds'), interval '5 seconds') as wait
              from p)
        select array_agg(j.tid) filter (where j.verdict = 'mine'), array_agg(j.id) filter (where j.verdict = 'mine'),
               array_agg(j.due) filter (where j.verdict = 'mine'), array_agg(j.key) filter (where j.verdict = 'mine'),
               array_agg(j.id) filter (where j.verdict = 'done'),
               array_agg(j.id) filter (where j.verdict = 'busy'), array_agg(j.wait) filter (where j.verdict = 'busy')
          from judged j $q$
       into p_pick.tids, p_pick.ids, p_pick.dues, p_pick.keys, v_done, v_busy, v_waits
      using p_pick.tids, p_pick.ids, p_pick.dues, p_pick.keys, v_held, v_new, p_now;
    if v_held is not null then
        execute 'update redrive.key k
                    set state = ''running'', owner_msg = p.id, owner = null, lease_until = $4, done_at = null, expires_at = null, result = null
                   from unnest($2, $3) p(id, key), unnest($5) h
                  where k.queue = $1 and k.key = any ($3) and k.key = p.key and h.key = p.key'
          using q.queue, p_pick.ids, p_pick.keys, p_until, v_held;
    end if;
    if v_done is not null then
        perform redrive._finish(q, v_done, 'duplicate', null);
    end if;
    if v_busy is not null then
        execute format('update pgmq.%I m set vt = $3 + greatest(b.wait, interval ''10 milliseconds'')
                          from unnest($1, $2) b(id, wait) where m.msg_id = b.id', 'q_' || q.queue)
          using v_busy, v_waits, p_now;
    end if;
    return p_pick;
end
$$;
revoke all on function redrive._take_keys(redrive.queue, redrive._picked, timestamptz, timestamptz) from public;
