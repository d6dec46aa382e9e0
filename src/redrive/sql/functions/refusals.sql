-- refusals: the quarantine, newest first: what was refused of a source, or of all. body has the first 64 KB, size says how many
-- bytes there were.
-- part: operate, read
create function redrive.refusals(p_source text default null, p_limit integer default 100)
returns table (id bigint, source text, at timestamptz, reason text, detail text, headers jsonb, body bytea, size bigint, event_id text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
begin
    if p_limit is null or p_limit < 1 then
        perform redrive._refuse(format('limit is %s; it must be a whole number >= 1', coalesce(p_limit::text, 'null')));
    end if;
    return query select r.id, r.source::text, redrive._refused_at(r.at, v_now), r.reason, r.detail, r.headers, r.body, r.size, r.event_id
                   from redrive.webhook_refused r where p_source is null or r.source = p_source order by r.id desc limit p_limit;
end
$$;
revoke all on function redrive.refusals(text, integer) from public;
