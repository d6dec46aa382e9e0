-- _tell_alerts: write a delivery a sink for what fires, is not silenced and was not told there yet (it began, a silence has ended,
-- the sink is new), and a reminder where the last word is older than the rule's remind_sec and has left.
-- A sink is not told of its own trouble.
create function redrive._tell_alerts(p_now timestamptz) returns void
language sql set search_path = pg_catalog, pg_temp
as $$
    with told as (
        insert into redrive.alert_delivery (sink, rule, subject, event, episode, body, at, next_at)
        select s.name, a.rule, a.subject, t.event, a.fired_at, redrive._alert_body(a, t.event), p_now, p_now
          from redrive.alert a
          join redrive._rules() u on u.name = a.rule
          cross join redrive.alert_sink s
          cross join lateral (select max(d.at) as at, bool_or(d.delivered_at is null and d.gave_up_at is null) as open
                                from redrive.alert_delivery d
                               where d.sink = s.name and d.rule = a.rule and d.subject = a.subject and d.episode = a.fired_at) d
          cross join lateral (select case when d.at is null then 'firing'
                                          when not d.open and d.at + make_interval(secs => u.remind_sec::float8) <= p_now then 'reminder' end as event) t
         where a.state = 'firing' and t.event is not null and not (a.rule = 'alerts_undelivered' and a.subject = s.name)
           and (redrive._silence_of(a.rule, a.subject, p_now)).id is null
         order by s.name, a.rule, a.subject
        on conflict do nothing
        returning rule, subject)
    update redrive.alert a set told_at = p_now where (a.rule, a.subject) in (select t.rule, t.subject from told t)
$$;
revoke all on function redrive._tell_alerts(timestamptz) from public;
