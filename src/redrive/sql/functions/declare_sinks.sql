-- declare_sinks: this process delivers alerts to these sinks (a name and a kind each): alerts are written down for them from now on.
-- Called every minute. A sink nobody has named for a day is forgotten.
-- part: work, operate
create function redrive.declare_sinks(p_sinks text[], p_kinds text[]) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
    v_name text;
begin
    if p_sinks is null or p_kinds is null or cardinality(p_sinks) <> cardinality(p_kinds) or cardinality(p_sinks) > 100 then
        perform redrive._refuse('declare_sinks takes two arrays of the same length, at most 100: a name and a kind for each sink');
    end if;
    foreach v_name in array p_sinks loop
        if v_name is null or v_name !~ '^[a-z0-9][a-z0-9_-]{0,62}$' or v_name = 'pg_net' then
            perform redrive._refuse(format('sink name %s is refused; the rule is: lower-case letters, digits, _ or -, at most 63, and not pg_net',
                                           coalesce(quote_literal(left(v_name, 100)), 'null')));
        end if;
    end loop;
    execute $q$
        insert into redrive.alert_sink (name, kind, seen_at)
        select distinct on (n.name) n.name, left(coalesce(n.kind, ''), 63), $3 from unnest($1, $2) n(name, kind) order by n.name
        on conflict (name) do update set kind = excluded.kind, seen_at = excluded.seen_at $q$
      using p_sinks, p_kinds, v_now;
end
$$;
revoke all on function redrive.declare_sinks(text[], text[]) from public;
