-- redrive: send dead letters again, in one transaction: bare payload (|| p_patch), headers, key and origin kept, budget new,
-- generation + 1. One row an id asked for: redriven (new_id is the new message), key done (stays dead: its key was completed by
-- another message; p_force frees it), no payload (stays dead: no envelope, somebody put it there), locked (somebody else has it in
-- hand) or missing. Without ids the oldest p_limit.
-- part: operate
create function redrive.redrive(p_queue text, p_msg_ids bigint[] default null, p_limit integer default 1000, p_patch jsonb default null, p_force boolean default false)
returns table (dead_id bigint, new_id bigint, status text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    q redrive.queue;
    v_dlq text := 'q_' || p_queue || '_dlq';
    v_now timestamptz := redrive.clock();
    v_ids bigint[];
    v_empty bigint[];
    v_keys text[];
    v_dead bigint[];
    v_new bigint[];
    v_bad bigint;
begin
    q := redrive._policy_of(p_queue);
    if to_regclass(format('pgmq.%I', v_dlq)) is null then
        raise exception 'the dead-letter queue of % is missing; run: redrive queue create %', p_queue, p_queue using errcode = 'RD002';
    elsif p_patch is not null and jsonb_typeof(p_patch) <> 'object' then
        perform redrive._refuse('patch must be a JSON object');
    elsif p_limit is null or p_limit < 1 then
        perform redrive._refuse(format('limit is %s; it must be a whole number >= 1', coalesce(p_limit::text, 'null')));
    end if;
    execute format($q$
        select array_agg(m.msg_id) filter (where m.message is not null), array_agg(%s) filter (where m.message is not null),
               array_agg(m.msg_id) filter (where m.message is null)
          from (select d.msg_id, d.message -> 'headers' as headers,
                       case jsonb_typeof(d.message -> 'payload') when 'object' then (d.message -> 'payload') || $3
                            else d.message -> 'payload' end as message
                  from (select m.msg_id, m.message from pgmq.%I m where $1 is null or m.msg_id = any ($1)
                         order by m.msg_id limit $2 for update skip locked) d) m $q$, redrive._part(q, 'key'), v_dlq)
       into v_ids, v_keys, v_empty
      using p_msg_ids, case when p_msg_ids is null then p_limit end, coalesce(p_patch, '{}');
    if p_patch is not null then
        execute format('select min(m.msg_id) from pgmq.%I m where m.msg_id = any ($1) and jsonb_typeof(m.message -> ''payload'') <> ''object''', v_dlq)
           into v_bad using v_ids;
        if v_bad is not null then
            perform redrive._refuse(format('dead letter %s has a payload that is no JSON object; a patch cannot be applied to it; leave it out', v_bad));
        end if;
    end if;
    if p_force then
        delete from redrive.key k where k.queue = p_queue and k.state = 'done' and k.key = any (v_keys);
    end if;
    select array_agg(d.id) into v_dead
      from unnest(v_ids, v_keys) d(id, key)
     where not exists (select from redrive.key k where k.queue = p_queue and k.key = d.key and k.state = 'done' and k.expires_at > v_now);
    select s.dead, s.new into v_dead, v_new from redrive._send_again(q, v_dead, coalesce(p_patch, '{}'), p_patch is not null) s;
    return query
        select d.id, d.new, 'redriven' from unnest(v_dead, v_new) d(id, new)
        union all
        select i, null::bigint, 'key done' from unnest(v_ids) i where i <> all (coalesce(v_dead, '{}'))
        union all
        select i, null::bigint, 'no payload' from unnest(v_empty) i
        union all
        select i, null::bigint, case when redrive._exists(v_dlq, i) then 'locked' else 'missing' end
          from unnest(p_msg_ids) i where i <> all (coalesce(v_ids, '{}') || coalesce(v_empty, '{}'))
         order by 1;
end
$$;
revoke all on function redrive.redrive(text, bigint[], integer, jsonb, boolean) from public;
