-- _quarantine: keep a refused request for the operator: the first 64 KB of its body, and the newest 200 of its source.
create function redrive._quarantine(p_source text, p_at timestamptz, p_reason text, p_detail text, p_headers jsonb, p_body bytea, p_size bigint, p_event_id text)
returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    insert into redrive.webhook_refused (source, at, reason, detail, headers, body, size, event_id)
         values (p_source, p_at, p_reason, left(p_detail, 1000), case when octet_length(p_headers::text) <= 65536 then p_headers end,
                 substring(p_body from 1 for 65536), p_size, left(p_event_id, 300));
    -- Skipping what another process is deleting just now: the next one finds what is left.
    delete from redrive.webhook_refused r
     where r.id = any (array(select o.id from redrive.webhook_refused o
                              where o.source = p_source
                                and o.id <= (select n.id from redrive.webhook_refused n where n.source = p_source order by n.id desc offset 200 limit 1)
                              order by o.id for update skip locked));
end
$$;
revoke all on function redrive._quarantine(text, timestamptz, text, text, jsonb, bytea, bigint, text) from public;
