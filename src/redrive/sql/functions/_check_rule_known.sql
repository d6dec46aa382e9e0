-- _check_rule_known: refuse the name of a rule there is not, with those there are.
create function redrive._check_rule_known(p_name text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if p_name is null or not exists (select from redrive._rules() r where r.name = p_name) then
        perform redrive._refuse(format('rule %s is unknown; the rules are %s', coalesce(p_name, 'null'),
                                       (select string_agg(r.name, ', ' order by r.name) from redrive._rules() r)));
    end if;
end
$$;
revoke all on function redrive._check_rule_known(text) from public;
