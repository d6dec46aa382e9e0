-- _rules: every rule as it holds: the defaults, and over them what an operator said.
create function redrive._rules() returns setof redrive._rule
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select (jsonb_populate_record(d, coalesce(r.fields, '{}'))).*
      from redrive._default_rules() d left join redrive.rule r on r.name = d.name
    union all
    select (jsonb_populate_record(row(r.name, null, '>', 0, null, 0, 14400, 'warning', null, true, false, null, null)::redrive._rule, r.fields)).*
      from redrive.rule r where r.name not in (select d.name from redrive._default_rules() d)
$$;
revoke all on function redrive._rules() from public;
