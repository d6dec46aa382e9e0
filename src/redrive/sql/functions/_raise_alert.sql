-- _raise_alert: this rule is over its limit for this subject: pending until that has been so for p_for seconds, then firing.
create function redrive._raise_alert(p_rule text, p_subject text, p_severity text, p_value double precision, p_threshold double precision,
                                     p_summary text, p_command text, p_for numeric, p_now timestamptz) returns redrive.alert
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    a redrive.alert;
begin
    insert into redrive.alert as x (rule, subject, state, severity, value, threshold, since, seen_at, summary, command)
         values (p_rule, p_subject, 'pending', p_severity, p_value, p_threshold, p_now, p_now, p_summary, p_command)
    on conflict (rule, subject) do update
        set state = case x.state when 'resolved' then 'pending' else x.state end,
            since = case x.state when 'resolved' then p_now else least(x.since, p_now) end,
            fired_at = case x.state when 'resolved' then null else x.fired_at end,
            told_at = case x.state when 'resolved' then null else x.told_at end,
            resolved_at = null, severity = p_severity, value = p_value, threshold = p_threshold, seen_at = p_now, summary = p_summary, command = p_command
    returning * into a;
    if a.state = 'pending' and p_now >= a.since + make_interval(secs => p_for::float8) then
        update redrive.alert x set state = 'firing', fired_at = p_now where x.rule = p_rule and x.subject = p_subject returning * into a;
    end if;
    return a;
end
$$;
revoke all on function redrive._raise_alert(text, text, text, double precision, double precision, text, text, numeric, timestamptz) from public;
