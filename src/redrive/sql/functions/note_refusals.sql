-- note_refusals: what a receiver refused since it last said so, gathered: a JSON array of {"source", "reason", "count", "samples"},
-- a sample being {"at", "detail", "headers", "body_base64", "size", "event_id"}. Counted by day; the samples go to the quarantine.
-- An "at" that cannot be (before 1970, or tomorrow) counts as now.
-- part: send
create function redrive.note_refusals(p_refusals jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
    r record;
begin
    if p_refusals is null or jsonb_typeof(p_refusals) <> 'array' then
        perform redrive._refuse('refusals must be one JSON array');
    elsif exists (select from jsonb_array_elements(p_refusals) e
                   where coalesce(e ->> 'source', '') = '' or length(e ->> 'source') > 255 or coalesce(e ->> 'reason', '') !~ '^[a-z_]{1,40}$'
                      or coalesce(e ->> 'count', '') !~ '^[0-9]{1,15}$' or coalesce(jsonb_typeof(e -> 'samples'), 'array') <> 'array') then
        perform redrive._refuse('each refusal needs a source, a reason of lower-case letters and _, a whole count, and an array of samples if any');
    end if;
    -- In one order, so that two receivers wait for each other and never deadlock.
    for r in select e ->> 'source' as source, e ->> 'reason' as reason, sum((e ->> 'count')::bigint) as total
               from jsonb_array_elements(p_refusals) e group by 1, 2 order by 1, 2 loop
        perform redrive._count_refused(r.source, r.reason, r.total::bigint, v_now);
    end loop;
    perform redrive._quarantine(
                e ->> 'source', redrive._refused_at(redrive._time(s ->> 'at'), v_now), e ->> 'reason', s ->> 'detail', nullif(s -> 'headers', 'null'),
                decode(s ->> 'body_base64', 'base64'), substring(s ->> 'size' from '^[0-9]{1,18}$')::bigint, s ->> 'event_id')
       from jsonb_array_elements(p_refusals) e, jsonb_array_elements(e -> 'samples') s;
end
$$;
revoke all on function redrive.note_refusals(jsonb) from public;
