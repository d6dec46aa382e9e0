-- replay_events: send events through their queue again, as they were recorded, a generation on; they keep their identity.
-- One row an id: replayed (msg_id is the new message), live (its message is queued or running: nothing sent), locked (somebody
-- else settles or replays it just now), no queue (it was dropped), missing. A dead letter of the event's leaves its queue by it.
-- part: operate
create function redrive.replay_events(p_ids uuid[]) returns table (id uuid, msg_id bigint, status text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    q redrive.queue;
    v_queues text[];
begin
    for q in select r.* from redrive.queue r
              where r.has_headers and to_regclass(format('pgmq.%I', 'q_' || r.queue)) is not null
                and r.queue in (select e.queue from redrive.webhook_event e where e.id = any (p_ids)) order by r.queue loop
        v_queues := v_queues || q.queue;
        return query select r.id, r.msg_id, r.status from redrive._replay(q, p_ids) r;
    end loop;
    return query
        select i, e.msg_id, case when e.id is null then 'missing' else 'no queue' end
          from (select distinct i from unnest(p_ids) i where i is not null) i left join redrive.webhook_event e on e.id = i
         where e.id is null or e.queue <> all (coalesce(v_queues, '{}'));
end
$$;
revoke all on function redrive.replay_events(uuid[]) from public;
