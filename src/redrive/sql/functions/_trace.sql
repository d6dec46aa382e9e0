-- _trace: the trace a message was sent in, from the traceparent among its headers, in whatever case that is written.
create function redrive._trace(p_headers jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select substring(h.value from '^[0-9a-f]{2}-([0-9a-f]{32})-')
      from jsonb_each_text(case when jsonb_typeof(p_headers) = 'object' then p_headers else '{}' end) h
     where lower(h.key) = 'traceparent' order by h.key = 'traceparent' desc limit 1
$$;
revoke all on function redrive._trace(jsonb) from public;
