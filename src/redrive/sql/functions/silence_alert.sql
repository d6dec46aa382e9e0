-- silence_alert: tell nobody of a rule (null: any) and subject (null: any; * in it: any text) for p_seconds. States still change; what still fires
-- at the end of the silence is told then, and that an alert is over is told wherever it was told that it fires.
-- part: operate
create function redrive.silence_alert(p_rule text default null, p_subject text default null, p_seconds numeric default 3600, p_reason text default null)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
    v_id bigint;
begin
    if p_rule is not null then
        perform redrive._check_rule_known(p_rule);
    end if;
    if p_seconds is null or p_seconds <= 0 or p_seconds > 31536000 then
        perform redrive._refuse(format('silence seconds is %s; it must be above 0, and a year (31536000) at most', coalesce(p_seconds::text, 'null')));
    elsif length(p_subject) > 255 or length(p_reason) > 500 then
        perform redrive._refuse('a silence takes a subject of at most 255 characters and a reason of at most 500');
    end if;
    insert into redrive.silence (rule, subject, until, reason, by, at)
         values (p_rule, p_subject, v_now + make_interval(secs => p_seconds::float8), p_reason, session_user, v_now)
      returning id into v_id;
    return v_id;
end
$$;
revoke all on function redrive.silence_alert(text, text, numeric, text) from public;
