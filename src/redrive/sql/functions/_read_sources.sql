-- _read_sources: of each webhook source how many were refused in the last 15 minutes although signed, and how long the oldest event
-- that could be handled has been waiting. A source whose queue cannot be read takes no other with it.
create function redrive._read_sources(p_now timestamptz) returns setof redrive._reading
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_source text;
    v_total bigint;
    v_before bigint;
    v_seen bigint;
begin
    for v_source in select s from redrive._sources() s order by s limit 200 loop
        begin
            return query select 'oldest_event_age_sec', v_source, redrive._oldest_event(v_source, p_now), null::jsonb;
        exception when others then
            return query select 'oldest_event_age_sec', v_source, null::double precision, jsonb_build_object('problem', sqlerrm);
        end;
        -- Counts are kept by day: how many came is the difference to what stood there. The quarantine's samples know of those
        -- before the first evaluation, but not of all.
        select coalesce(sum(c.total), 0) into v_total from redrive.webhook_count c
         where c.source = v_source and c.reason in ('mismatch', 'stale', 'malformed');
        select s.total into v_before from redrive.refused_sample s
         where s.source = v_source and s.at <= p_now order by s.at > p_now - interval '15 minutes', abs(extract(epoch from p_now - interval '15 minutes' - s.at)) limit 1;
        select count(*) into v_seen
          from (select f.at, f.reason from redrive.webhook_refused f where f.source = v_source order by f.id desc limit 200) f
         where f.at > p_now - interval '15 minutes' and f.reason in ('mismatch', 'stale', 'malformed');
        return query select 'refused_lately', v_source, greatest(v_total - v_before, v_seen)::double precision, null::jsonb;
        insert into redrive.refused_sample (source, at, total) values (v_source, p_now, v_total) on conflict do nothing;
    end loop;
    delete from redrive.refused_sample s where s.at < p_now - interval '1 hour' or s.at > p_now;
end
$$;
revoke all on function redrive._read_sources(timestamptz) from public;
