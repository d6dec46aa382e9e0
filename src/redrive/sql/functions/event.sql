-- event: one recorded webhook event with its payload, headers and raw body. No row when there is none.
-- part: work, operate, read
create function redrive.event(p_id uuid)
returns table (id uuid, source text, event_id text, type text, resource text, received_at timestamptz, status text, attempts integer,
               last_error text, payload jsonb, raw bytea, headers jsonb, msg_id bigint, queue text, generation integer, origin text,
               settled_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select e.id, e.source, e.event_id, e.type, e.resource, e.received_at, e.status, e.attempts, e.last_error, e.payload, e.raw, e.headers,
           e.msg_id, e.queue, e.generation, e.origin, e.settled_at
      from redrive.webhook_event e where e.id = p_id
$$;
revoke all on function redrive.event(uuid) from public;
