-- _targets: where what is over stands: tables, which of their rows (aliased t, $1 the time before which), and their order along an
-- index; known_as: what an error calls it. p_queue: null, or only this queue's. Live and dead messages, waiting and failed events, and what fires are never among them.
create function redrive._targets(p_what text, p_queue text default null)
returns table (relation text, condition text, sort text, known_as text)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_live text;
    v_of_queue text := case when p_queue is null then '' else format(' and t.queue = %L', p_queue) end;
begin
    case p_what
    when 'archive', 'letters' then
        return query select format('pgmq.%I', a.name), 't.archived_at < $1', 't.archived_at', format('pgmq.%I', a.name)
                       from redrive.queue q, lateral (select 'a_' || q.queue || case p_what when 'letters' then '_dlq' else '' end as name) a
                      where (p_queue is null or q.queue = p_queue) and to_regclass(format('pgmq.%I', a.name)) is not null
                      order by q.queue;
    when 'failures' then
        -- Queues one by one along the primary key: whether a message has ended is asked of its own queue.
        for p_queue, v_live in
            with recursive name as (
                (select a.queue from redrive.attempt a where p_queue is null or a.queue = p_queue order by a.queue limit 1)
                union all
                select (select a.queue from redrive.attempt a where a.queue > n.queue and p_queue is null order by a.queue limit 1)
                  from name n where n.queue is not null),
            sent_again as (
                (select r.queue from redrive.redriven r where p_queue is null or r.queue = p_queue order by r.queue limit 1)
                union all
                select (select r.queue from redrive.redriven r where r.queue > n.queue and p_queue is null order by r.queue limit 1)
                  from sent_again n where n.queue is not null)
            select n.queue, to_regclass(format('pgmq.%I', 'q_' || n.queue))::text
              from (select * from name union select * from sent_again) n where n.queue is not null order by 1 loop
            condition := format('t.at < $1 and t.queue = %L', p_queue)
                || case when v_live is null then '' else format(' and not exists (select from %s m where m.msg_id = t.msg_id)', v_live) end;
            sort := 't.at';
            relation := 'redrive.attempt';
            known_as := format('redrive.attempt of queue %s, or %s', p_queue, coalesce(v_live, 'the queue'));
            return next;
            -- Which message a dead letter became.
            relation := 'redrive.redriven';
            known_as := replace(known_as, 'redrive.attempt', 'redrive.redriven');
            return next;
        end loop;
    when 'keys' then
        return query select 'redrive.key', 't.state = ''done'' and t.expires_at < $1' || v_of_queue, 't.expires_at', 'redrive.key';
    when 'events' then
        return query select 'redrive.webhook_event', format('t.status = %L and t.source = %L and t.received_at < $1 and coalesce(t.settled_at, t.received_at) < $1%s',
                                                            s.status, o.source, v_of_queue), 't.received_at', 'redrive.webhook_event'
                       from unnest(array['processed', 'ignored']) s(status), redrive._sources() o(source);
    when 'refused' then
        return query select 'redrive.webhook_count', 't.day < ($1 at time zone ''UTC'')::date', 't.day', 'redrive.webhook_count';
    when 'fetched' then
        return query select 'redrive.fetched', 't.at < $1', 't.at', 'redrive.fetched';
    when 'runs' then
        return query select 'redrive.schedule_tick', 't.at < $1 and t.outcome <> ''waiting''', 't.at', 'redrive.schedule_tick';
    when 'alerts' then
        return query select r.relation, r.condition, r.sort, r.relation
                       from (values ('redrive.alert', 't.state = ''resolved'' and t.resolved_at < $1', 't.resolved_at'),
                                    ('redrive.alert_delivery', 't.at < $1 and coalesce(t.delivered_at, t.gave_up_at) < $1', 't.at'),
                                    ('redrive.silence', 't.until < $1', 't.until')) r(relation, condition, sort)
                      where to_regclass(r.relation) is not null;
    when 'workers' then
        -- Never one that lives.
        return query select 'redrive.worker', 't.worker <> '''' and t.last_seen < least($1, redrive.clock() - interval ''1 minute'')' || v_of_queue,
                            't.last_seen', 'redrive.worker';
    else
        null; -- the keys of sent messages are gone through by themselves
    end case;
end
$$;
revoke all on function redrive._targets(text, text) from public;
