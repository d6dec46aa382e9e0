-- _take_keys: the keys of picked messages. Keeps in the pick what may run now, ends what is a duplicate of a done key and
-- postpones what must wait (the lease left, 5 s at most, no charge). Never waits: a key row that somebody's
-- transaction holds is busy, and so is a missing one that somebody is about to insert.
create function redrive._take_keys(q redrive.queue, p_pick redrive._picked, p_now timestamptz, p_until timestamptz)
returns redrive._picked
language plpgsql set search_path = ''
as $$
declare
    v_keys text[] := array(select distinct k from unnest(p_pick.keys) k where k is not null);
    v_held redrive.key[];
    v_new text[];
    v_mine bigint[];
    v_done bigint[];
    v_busy bigint[];
    v_waits interval[];
begin
    execute 'select array_agg(k) from (select k from redrive.key k where k.queue = $1 and k.key = any ($2) order by k.key for update skip locked) k'
       into v_held using q.queue, v_keys;
    execute 'with free as (
                 select f.key from unnest($2) f(key)
                  where not exists (select from redrive.key k where k.queue = $1 and k.key = f.key)
                    and pg_try_advisory_xact_lock(hashtextextended($1 || '':'' || f.key, 0))),
             taken as (
                 insert into redrive.key (queue, key, state, lease_until)
                 select $1, f.key, ''running'', $3 from free f on conflict do nothing returning key)
             select array_agg(t.key) from taken t'
       into v_new using q.queue, v_keys, p_until;
    with judged as (
        select p.id, p.key,
               case when p.key is null then 'mine'
                    when h.state = 'done' and h.expires_at > p_now then 'done'
                    when p.nth > 1 then 'busy'
                    when p.key = any (v_new) then 'mine'
                    when h.key is null then 'busy'
                    when h.owner_msg = p.id or h.state = 'done' or h.lease_until <= p_now then 'mine'
                    else 'busy' end as verdict,
               least(coalesce(h.lease_until - p_now, interval '5 seconds'), interval '5 seconds') as wait
          from (select p.id, p.key, row_number() over (
                           partition by p.key order by h.owner_msg = p.id desc nulls last, p.id) as nth
                  from unnest(p_pick.ids, p_pick.keys) p(id, key) left join unnest(v_held) h on h.key = p.key) p
          left join unnest(v_held) h on h.key = p.key)
    select array_agg(j.id) filter (where j.verdict = 'mine'), array_agg(j.id) filter (where j.verdict = 'done'),
           array_agg(j.id) filter (where j.verdict = 'busy'), array_agg(j.wait) filter (where j.verdict = 'busy')
      into v_mine, v_done, v_busy, v_waits
      from judged j;
    execute 'update redrive.key k
                set state = ''running'', owner_msg = p.id, owner = null, lease_until = $4, done_at = null, expires_at = null, result = null
               from unnest($2, $3) p(id, key)
              where k.queue = $1 and k.key = p.key and p.id = any ($5)'
      using q.queue, p_pick.ids, p_pick.keys, p_until, v_mine;
    if v_done is not null then
        perform redrive._finish(q, v_done, 'duplicate', null);
    end if;
    if v_busy is not null then
        execute format('update pgmq.%I m set vt = $3 + greatest(b.wait, interval ''10 milliseconds'')
                          from unnest($1, $2) b(id, wait) where m.msg_id = b.id', 'q_' || q.queue)
          using v_busy, v_waits, p_now;
    end if;
    select array_agg(p.tid), array_agg(p.id), array_agg(p.due) into p_pick.tids, p_pick.ids, p_pick.dues
      from unnest(p_pick.tids, p_pick.ids, p_pick.dues) p(tid, id, due) where p.id = any (v_mine);
    return p_pick;
end
$$;
revoke all on function redrive._take_keys(redrive.queue, redrive._picked, timestamptz, timestamptz) from public;
