-- _read_net: how many of pg_net's calls failed in the last 15 minutes: no answer, a time-out, or a status of 400 and above. Those of
-- post_tick are looked at by redrive._read_ticks.
create function redrive._read_net(p_now timestamptz) returns setof redrive._reading
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if to_regclass('net._http_response') is not null then
        return query execute $q$
            select 'net_failed', '', sum(n.times)::double precision, jsonb_build_object('what', string_agg(n.times || ' x ' || n.why, ', ' order by n.times desc))
              from (select case when r.timed_out then 'timed out' when r.status_code is null then 'no answer' else 'status ' || r.status_code end as why, count(*) as times
                      from (select * from net._http_response r where r.created > $1 - interval '15 minutes' limit 10000) r
                     where not exists (select from redrive.http_call c where c.request_id = r.id)
                       and (r.timed_out or r.status_code is null or r.status_code >= 400) group by 1) n
            having count(*) > 0
            union all
            select 'net_failed', '', 0, null
             where not exists (select from net._http_response r where r.created > $1 - interval '15 minutes'
                                and (r.timed_out or r.status_code is null or r.status_code >= 400)
                                and not exists (select from redrive.http_call c where c.request_id = r.id)) $q$ using p_now;
    end if;
end
$$;
revoke all on function redrive._read_net(timestamptz) from public;
