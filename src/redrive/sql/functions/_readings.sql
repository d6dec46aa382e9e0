-- _readings: the value of every gauge, a row a subject, bounded. Of a family of gauges that cannot be read each is one row without
-- a subject, with the reason, and it takes no other family with it. What could not be read is a gauge itself, the last.
-- Waits for no lock longer than a quarter of a second.
create function redrive._readings() returns setof redrive._reading
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '250ms'
as $$
declare
    v_family text;
    v_now timestamptz := redrive.clock();
    v_all redrive._reading[] := '{}'::redrive._reading[];
begin
    for v_family in select distinct g.family from redrive._gauge_names() g where g.family is not null order by 1 loop
        begin
            execute format('select $2 || array(select (r.gauge, left(r.subject, 200), r.value, r.detail)::redrive._reading from redrive._read_%s($1) r)', v_family)
               into v_all using v_now, v_all;
        exception when others then
            v_all := v_all || array(select (g.gauge, null, null, jsonb_build_object('problem', sqlerrm))::redrive._reading
                                      from redrive._gauge_names() g where g.family = v_family);
        end;
    end loop;
    return query select * from unnest(v_all);
    return query select 'gauges_unread', '', count(*)::double precision,
                        jsonb_build_object('what', left(string_agg(u.said, '; ') filter (where u.n <= 3), 500))
                   from (select concat_ws(' of ', r.gauge, r.subject) || ': ' || (r.detail ->> 'problem') as said, row_number() over () as n
                           from unnest(v_all) r where r.value is null and r.detail ->> 'problem' is not null) u;
end
$$;
revoke all on function redrive._readings() from public;
