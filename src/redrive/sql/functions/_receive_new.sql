-- _receive_new: those events for one queue that nobody received before: their records and their jobs, in one statement.
-- Looked at before they are written: an insert would wait for a handler's transaction that is completing an earlier event, and all
-- others with it. By a lookup each, whatever the planner thinks of the table.
create function redrive._receive_new(q redrive.queue, p_events jsonb, p_raws bytea, p_now timestamptz)
returns table (n bigint, id uuid, msg_id bigint, large boolean)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform redrive._check_inbox(q);
    for n, id, msg_id, large in execute format($q$
        with first as (
                 select distinct on (u.source, u.event_id) u.*,
                        redrive._check_event(u.source, u.event_id, u.type, u.raw, u.resource, 'webhook')
                   from redrive._unfold_events($1, $2) u
                   left join lateral (select true as known from redrive.webhook_event e
                                       where e.source = u.source and e.event_id = u.event_id limit 1) e on true
                  where u.queue = $3 and not u.derived and e.known is null
                  order by u.source, u.event_id, u.n),
             given as materialized (
                 select g.*, gen_random_uuid() as id, nextval(%L::regclass) as msg_id from (select * from first f order by f.n) g),
             kept as (
                 insert into redrive.webhook_event as e (id, source, event_id, type, resource, received_at, payload, raw, headers, msg_id, queue)
                 select g.id, g.source, g.event_id, g.type, g.resource, $4, g.payload, g.raw, g.headers, g.msg_id, $3
                   from given g order by g.source, g.event_id
                 on conflict (source, event_id) do nothing
                 returning e.id),
             new as materialized (
                 select g.*, m.message, redrive._event_size(m.message) > 1000000 as large
                   from given g join kept k on k.id = g.id, lateral redrive._event_message(g.event_id, g.type, g.payload) m(message)),
             sent as (
                 insert into pgmq.%I (msg_id, vt, message, headers) overriding system value
                 select w.msg_id, $4, w.message, redrive._event_headers(w.id, w.large) from new w)
        select w.n, w.id, w.msg_id, w.large from new w $q$, pg_get_serial_sequence(format('pgmq.%I', 'q_' || q.queue), 'msg_id'), 'q_' || q.queue)
      using p_events, p_raws, q.queue, p_now
    loop
        return next;
    end loop;
end
$$;
revoke all on function redrive._receive_new(redrive.queue, jsonb, bytea, timestamptz) from public;
