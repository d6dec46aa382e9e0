-- reset_rule: a built-in rule is again as redrive brings it. False when it was.
-- part: operate
create function redrive.reset_rule(p_name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform redrive._check_rule_known(p_name);
    if not exists (select from redrive._default_rules() d where d.name = p_name) then
        perform redrive._refuse(format('rule %s is your own: there is nothing to reset it to; change it with set_rule, or drop it', p_name));
    end if;
    delete from redrive.rule r where r.name = p_name;
    return found;
end
$$;
revoke all on function redrive.reset_rule(text) from public;
