-- test_alert: write a test delivery to one sink, or to each there is; returns their ids. Delivered like any other, by the same process.
-- part: operate
create function redrive.test_alert(p_sink text default null) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
begin
    if p_sink is not null and not exists (select from redrive.alert_sink s where s.name = p_sink) then
        perform redrive._refuse(format('sink %s is unknown; the sinks that processes have named are: %s', p_sink,
                                       coalesce((select string_agg(s.name, ', ' order by s.name) from redrive.alert_sink s), 'none')));
    end if;
    return query
        insert into redrive.alert_delivery (sink, rule, subject, event, body, at, next_at)
        select s.name, 'test', '', 'test',
               jsonb_build_object('rule', 'test', 'subject', '', 'event', 'test', 'severity', 'info', 'value', null, 'threshold', null,
                                  'summary', 'This is a test: alerts of database ' || current_database() || ' reach this place.',
                                  'command', 'redrive alerts list', 'since', v_now, 'database', current_database()), v_now, v_now
          from redrive.alert_sink s where p_sink is null or s.name = p_sink order by s.name
        returning id;
end
$$;
revoke all on function redrive.test_alert(text) from public;
