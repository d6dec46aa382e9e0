-- drop_rule: forget a rule of your own; its alerts are resolved by the next check. A built-in one can only be disabled.
-- part: operate
create function redrive.drop_rule(p_name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform redrive._check_rule_known(p_name);
    if exists (select from redrive._default_rules() d where d.name = p_name) then
        perform redrive._refuse(format('rule %s comes with redrive; turn it off instead: set_rule(%L, ''{"enabled": false}'')', p_name, p_name));
    end if;
    delete from redrive.rule r where r.name = p_name;
    return found;
end
$$;
revoke all on function redrive.drop_rule(text) from public;
