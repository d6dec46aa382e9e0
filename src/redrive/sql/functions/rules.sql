-- rules: every rule as it holds. changed: which fields an operator set, null where it is as redrive brings it.
-- part: operate, read
create function redrive.rules()
returns table (name text, gauge text, operator text, threshold double precision, clear_at double precision, for_sec numeric, remind_sec numeric,
               severity text, queue_pattern text, enabled boolean, builtin boolean, summary text, command text, changed jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select r.name, r.gauge, r.operator, r.threshold, r.clear_at, r.for_sec, r.remind_sec, r.severity, r.queue_pattern, r.enabled, r.builtin,
           r.summary, r.command, c.fields
      from redrive._rules() r left join redrive.rule c on c.name = r.name order by not r.builtin, r.name
$$;
revoke all on function redrive.rules() from public;
