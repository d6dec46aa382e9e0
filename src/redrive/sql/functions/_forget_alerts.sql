-- _forget_alerts: alerts that are over for 30 days, silences over for 7, deliveries that ended 7 days ago and are of no alert that
-- still fires, and sinks no process has named for a day, with what waits for them. A thousand of each at a time.
create function redrive._forget_alerts(p_now timestamptz) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    delete from redrive.alert a where a.state = 'resolved' and a.resolved_at < p_now - interval '30 days';
    delete from redrive.silence s where s.until < p_now - interval '7 days';
    delete from redrive.alert_delivery d where d.id in (
        select d.id from redrive.alert_delivery d
         where d.at < p_now - interval '7 days' and coalesce(d.delivered_at, d.gave_up_at) < p_now - interval '7 days'
           and not exists (select from redrive.alert a where a.rule = d.rule and a.subject = d.subject and a.state = 'firing' and a.fired_at = d.episode)
         order by d.at limit 1000);
    perform redrive.forget_sink(s.name) from redrive.alert_sink s where s.seen_at < p_now - interval '1 day';
end
$$;
revoke all on function redrive._forget_alerts(timestamptz) from public;
