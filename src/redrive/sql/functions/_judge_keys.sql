-- _judge_keys: a keyed done counts only while the key still names its message: otherwise another message with the key took it
-- over and will complete it. A key row that somebody's transaction holds: that report comes again.
create function redrive._judge_keys(q redrive.queue, j redrive._judged) returns redrive._judged
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_held redrive.key[];
    v_there text[];
    v_refused bigint[];
    v_locked bigint[];
begin
    execute 'select array_agg(k) from (select k from redrive.key k where k.queue = $1 and k.key = any ($2) order by k.key for update skip locked) k'
       into v_held using q.queue, j.keys;
    if cardinality(v_held) is distinct from cardinality(j.keys) then
        execute 'select array_agg(k.key) from redrive.key k where k.queue = $1 and k.key = any ($2)' into v_there using q.queue, j.keys;
    end if;
    execute $q$
        select array_agg(f.id) filter (where h.key is null and t.key is not null),
               array_agg(f.id) filter (where h.owner_msg is distinct from f.id and h.key is not null
                                          or h.key is null and t.key is null and v.verdict = 'late')
          from unnest($1, $2) f(id, key)
          join unnest($3, $4) v(id, verdict) on v.id = f.id
          left join unnest($5) h on h.key = f.key
          left join unnest($6) t(key) on t.key = f.key $q$
       into v_locked, v_refused using j.keyed, j.keys, j.ids, j.verdicts, v_held, v_there;
    if v_locked is null and v_refused is null then
        return j;
    end if;
    select array_agg(v.id), array_agg(v.ct),
           array_agg(case when v.id = any (v_locked) and v.verdict in ('ok', 'late') then 'locked'
                          when v.id = any (v_refused) and v.verdict in ('ok', 'late') then 'lost' else v.verdict end)
      into j.ids, j.cts, j.verdicts
      from unnest(j.ids, j.cts, j.verdicts) v(id, ct, verdict);
    select array_agg(f.id), array_agg(f.duration) into j.finishes, j.durations
      from unnest(j.finishes, j.durations) f(id, duration)
     where f.id <> all (coalesce(v_locked, '{}')) and f.id <> all (coalesce(v_refused, '{}'));
    return j;
end
$$;
revoke all on function redrive._judge_keys(redrive.queue, redrive._judged) from public;
