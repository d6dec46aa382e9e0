-- _readings: the value of every gauge, a row a subject, bounded. Of a family of gauges that cannot be read each is one row without
-- a subject, with the reason, and it takes no other family with it. Waits for no lock longer than a quarter of a second.
create function redrive._readings() returns setof redrive._reading
language plpgsql set search_path = '' set lock_timeout = '250ms'
as $$
declare
    v_family text;
    v_now timestamptz := redrive.clock();
begin
    for v_family in select distinct g.family from redrive._gauge_names() g order by 1 loop
        begin
            return query execute format('select * from redrive._read_%s($1)', v_family) using v_now;
        exception when others then
            return query select g.gauge, null::text, null::double precision, jsonb_build_object('problem', sqlerrm)
                           from redrive._gauge_names() g where g.family = v_family;
        end;
    end loop;
end
$$;
revoke all on function redrive._readings() from public;
