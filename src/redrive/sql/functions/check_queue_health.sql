-- check_queue_health: evaluate every rule, move the alerts' states, write down who has to be told; returns what began to fire and what
-- is over. One evaluation at a time: a second one at the same time does nothing, and neither does one that comes sooner than
-- p_every seconds after the last that named a p_every (a tenth of it early is in time). Never waits for a lock longer than a quarter of a second.
-- Where pg_net is there and Vault has the secret alerts_webhook, it also delivers to that one itself.
-- part: work, operate
create function redrive.check_queue_health(p_every numeric default 0)
returns table (rule text, subject text, state text, severity text, value double precision, threshold double precision, summary text, command text,
               since timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '250ms'
as $$
#variable_conflict use_column
declare
    v_now timestamptz := redrive.clock();
    v_began timestamptz := clock_timestamp();
    v_readings redrive._reading[];
    v_url text;
    v_problem text;
begin
    if p_every is null or p_every < 0 or p_every > 86400 then
        perform redrive._refuse(format('p_every is %s; it must be seconds from 0 (now) to 86400', coalesce(p_every::text, 'null')));
    end if;
    perform from redrive.watch for update skip locked;
    if not found or (p_every > 0 and redrive._lease('redrive.health', p_every * 0.9) is null) then
        return;
    end if;
    select n.url, n.problem into v_url, v_problem from redrive._net_sink(v_now) n;
    v_readings := array(select r from redrive._readings() r);
    return query select a.rule, a.subject, a.state, a.severity, a.value, a.threshold, a.summary, a.command, a.since
                   from redrive._judge_alerts(v_readings, v_now) a;
    perform redrive._drop_held(v_now);
    perform redrive._tell_alerts(v_now);
    perform redrive._forget_alerts(v_now);
    if v_url is not null then
        v_problem := redrive._post_alerts(v_url, v_now);
    end if;
    update redrive.watch w
       set checked_at = v_now, duration = extract(epoch from clock_timestamp() - v_began), by = session_user,
           problems = (select coalesce(jsonb_agg(jsonb_build_object('gauge', p.gauge, 'problem', p.problem) order by p.gauge), '[]')
                         from (select concat_ws(' of ', r.gauge, r.subject) as gauge, r.detail ->> 'problem' as problem from unnest(v_readings) r
                                where r.detail ->> 'problem' is not null
                               union all select 'pg_net', v_problem where v_problem is not null) p)
     where w.one;
end
$$;
revoke all on function redrive.check_queue_health(numeric) from public;
