-- set_rule: change fields of a rule, or make a new one; a JSON object of gauge, operator, threshold, clear_at, for_sec, remind_sec,
-- severity, queue_pattern, enabled, summary, command. Fields that are not named stay; a clear_at that no
-- longer fits a new threshold goes. Returns the rule as it holds then.
-- part: operate
create function redrive.set_rule(p_name text, p_fields jsonb) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_builtin boolean := exists (select from redrive._default_rules() d where d.name = p_name);
    v_fields jsonb;
    v_rule redrive._rule;
begin
    if p_name is null or p_name !~ '^[a-z][a-z0-9_]{0,62}$' or p_name = 'test' then
        perform redrive._refuse(format('rule name %s is refused; the rule is: a lower-case letter, then lower-case letters, digits or _, at most 63, and not test',
                                       coalesce(quote_literal(p_name), 'null')));
    end if;
    perform redrive._check_rule(p_fields);
    insert into redrive.rule as r (name, fields, changed_at, changed_by) values (p_name, p_fields, redrive.clock(), session_user)
    on conflict (name) do update set fields = r.fields || excluded.fields, changed_at = excluded.changed_at, changed_by = excluded.changed_by
    returning r.fields into v_fields;
    if not v_builtin and not (v_fields ?& array['gauge', 'threshold']) then
        perform redrive._refuse(format('rule %s is not there yet; a new rule needs at least gauge and threshold', p_name));
    end if;
    select * into v_rule from redrive._rules() r where r.name = p_name;
    if redrive._over(v_rule.clear_at, replace(v_rule.operator, '=', ''), v_rule.threshold) then
        if p_fields ? 'clear_at' then
            perform redrive._refuse(format('clear_at is %s; with %s %s it must be on the quiet side of the threshold: it is where a firing alert is over',
                                           v_rule.clear_at, v_rule.operator, v_rule.threshold));
        end if;
        update redrive.rule r set fields = r.fields || '{"clear_at": null}' where r.name = p_name;
        v_rule.clear_at := null;
    end if;
    return to_jsonb(v_rule);
end
$$;
revoke all on function redrive.set_rule(text, jsonb) from public;
