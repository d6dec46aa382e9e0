-- alerts: what fires or is about to, the worst first; with p_all also the newest 200 that are over.
-- undelivered: how many deliveries of it are still open.
-- part: work, operate, read
create function redrive.alerts(p_all boolean default false)
returns table (rule text, subject text, state text, severity text, value double precision, threshold double precision, summary text, command text,
               since timestamptz, fired_at timestamptz, resolved_at timestamptz, silenced_until timestamptz, silence_reason text, undelivered integer)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now timestamptz := redrive.clock();
begin
    return query
        select a.rule, a.subject, a.state, a.severity, a.value, a.threshold, a.summary, a.command, a.since, a.fired_at, a.resolved_at,
               s.until, s.reason,
               (select count(*)::integer from redrive.alert_delivery d
                 where d.rule = a.rule and d.subject = a.subject and d.delivered_at is null and d.gave_up_at is null)
          from (select a.* from redrive.alert a where a.state <> 'resolved'
                union all
                (select a.* from redrive.alert a where p_all and a.state = 'resolved' order by a.resolved_at desc limit 200)) a
          left join lateral (select (redrive._silence_of(a.rule, a.subject, v_now)).*) s on a.state <> 'resolved'
         order by array_position(array['firing', 'pending', 'resolved'], a.state), array_position(array['critical', 'warning', 'info'], a.severity),
                  coalesce(a.resolved_at, a.since) desc, a.rule, a.subject;
end
$$;
revoke all on function redrive.alerts(boolean) from public;
