-- _resolve_alert: a firing alert is over, and that is told wherever it was told, or is being told, that it fires. p_gone: there is no
-- such subject any more, or no such rule.
create function redrive._resolve_alert(p_rule text, p_subject text, p_value double precision, p_gone boolean, p_now timestamptz) returns redrive.alert
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    a redrive.alert;
    v_over text;
begin
    update redrive.alert x set state = 'resolved', resolved_at = p_now, value = coalesce(p_value, x.value), seen_at = p_now
     where x.rule = p_rule and x.subject = p_subject and x.state = 'firing' returning * into a;
    v_over := format('over after %s%s: %s', redrive._span(greatest(extract(epoch from p_now - a.since), 0)),
                     case when p_gone then ', as it is not watched any more' end, a.summary);
    insert into redrive.alert_delivery (sink, rule, subject, event, episode, body, at, next_at)
    select distinct d.sink, p_rule, p_subject, 'resolved', a.fired_at, redrive._alert_body(a, 'resolved') || jsonb_build_object('summary', v_over),
           p_now, p_now
      from redrive.alert_delivery d
     where d.rule = p_rule and d.subject = p_subject and d.episode = a.fired_at and d.event in ('firing', 'reminder') and d.gave_up_at is null
    on conflict do nothing;
    return a;
end
$$;
revoke all on function redrive._resolve_alert(text, text, double precision, boolean, timestamptz) from public;
