-- _unread: does this rule hold, and could its gauge not be read?
create function redrive._unread(p_rule text, p_readings redrive._reading[]) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select exists (select from redrive._rules() u join unnest(p_readings) r on r.gauge = u.gauge and r.subject is null
                    where u.name = p_rule and u.enabled)
$$;
revoke all on function redrive._unread(text, redrive._reading[]) from public;
