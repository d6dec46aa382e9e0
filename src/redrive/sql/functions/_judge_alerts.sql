-- _judge_alerts: the state of every alert from what was read; returns those that began to fire or are over.
-- A value that is null, and a gauge that could not be read, change nothing. An alert whose subject, rule or gauge is gone is over.
create function redrive._judge_alerts(p_readings redrive._reading[], p_now timestamptz) returns setof redrive.alert
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    j record;
    a redrive.alert;
begin
    for j in execute $q$
        with reading as (select r.* from unnest($1) r where r.subject is not null),
        pair as (select u.name, r.subject, r.value, r.detail, u.operator, u.threshold, u.clear_at, u.for_sec, u.severity, u.summary, u.command
                   from redrive._rules() u join reading r on r.gauge = u.gauge
                  where u.enabled and (u.queue_pattern is null or r.subject like redrive._like(u.queue_pattern))),
        known as (select a.* from redrive.alert a where a.state <> 'resolved')
        select coalesce(p.name, k.rule) as rule, coalesce(p.subject, k.subject) as subject, k.state, p.value, p.threshold, p.for_sec, p.severity,
               p.name is not null as here,
               redrive._over(p.value, p.operator, case when k.state = 'firing' then coalesce(p.clear_at, p.threshold) else p.threshold end) as over,
               redrive._worded(coalesce(p.summary, p.name || ': {subject} is {value} (limit ' || p.operator || ' {limit})'), p.subject, p.value, p.threshold, p.detail) as summary,
               redrive._worded(p.command, p.subject, p.value, p.threshold, p.detail) as command
          from pair p full join known k on k.rule = p.name and k.subject = p.subject
         where k.rule is not null or redrive._over(p.value, p.operator, p.threshold)
         order by 1, 2 $q$
        using p_readings
    loop
        if not j.here and redrive._unread(j.rule, p_readings) then
            continue;
        elsif j.here and j.over is null then
            update redrive.alert x set seen_at = p_now where x.rule = j.rule and x.subject = j.subject;
        elsif j.here and j.over then
            a := redrive._raise_alert(j.rule, j.subject, j.severity, j.value, j.threshold, j.summary, j.command, j.for_sec, p_now);
            if a.state = 'firing' and j.state is distinct from 'firing' then
                return next a;
            end if;
        elsif j.state = 'pending' then
            delete from redrive.alert x where x.rule = j.rule and x.subject = j.subject;
        else
            return next redrive._resolve_alert(j.rule, j.subject, j.value, not j.here, p_now);
        end if;
    end loop;
end
$$;
revoke all on function redrive._judge_alerts(redrive._reading[], timestamptz) from public;
