-- _unfold_events: the events of one call of receive_events, a row each.
create function redrive._unfold_events(p_events jsonb, p_raws bytea)
returns table (n bigint, source text, event_id text, type text, queue text, payload jsonb, raw bytea, headers jsonb, resource text,
               volatile text[], derived boolean)
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select e.n, e.v ->> 'source', e.v ->> 'event_id', e.v ->> 'type', e.v ->> 'queue', e.v -> 'payload',
           substring(p_raws from (1 + sum((e.v -> 'size')::bigint) over (order by e.n) - (e.v -> 'size')::bigint)::integer for (e.v -> 'size')::integer),
           e.v -> 'headers', e.v ->> 'resource',
           case when e.v ? 'volatile' then array(select jsonb_array_elements_text(e.v -> 'volatile')) end,
           coalesce((e.v -> 'derived')::boolean, false)
      from jsonb_array_elements(p_events) with ordinality e(v, n)
$$;
revoke all on function redrive._unfold_events(jsonb, bytea) from public;
