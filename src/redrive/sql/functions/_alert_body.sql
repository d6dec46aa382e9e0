-- _alert_body: what a sink is told.
create function redrive._alert_body(a redrive.alert, p_event text) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select jsonb_build_object('rule', a.rule, 'subject', a.subject, 'event', p_event, 'severity', a.severity, 'value', a.value, 'threshold', a.threshold,
                              'summary', a.summary, 'command', a.command, 'since', a.since, 'database', current_database())
           || case when p_event = 'resolved' then jsonb_build_object('resolved_at', a.resolved_at) else '{}' end
$$;
revoke all on function redrive._alert_body(redrive.alert, text) from public;
