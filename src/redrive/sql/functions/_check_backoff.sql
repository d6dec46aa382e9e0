-- _check_backoff: refuse a backoff object {base, factor, cap, jitter} that can never be right.
create function redrive._check_backoff(p_backoff jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_field text;
    v_value jsonb;
begin
    if jsonb_typeof(p_backoff) <> 'object' then
        perform redrive._refuse(format('policy field backoff is %s; it must be {"base", "factor", "cap", "jitter"}', p_backoff));
    end if;
    for v_field, v_value in select key, value from jsonb_each(p_backoff) loop
        if v_field not in ('base', 'factor', 'cap', 'jitter') then
            perform redrive._refuse(format('policy field backoff.%s is unknown; the fields are base, factor, cap, jitter', v_field));
        elsif jsonb_typeof(v_value) <> 'number' or (v_value #>> '{}')::numeric < 0 or (v_value #>> '{}')::numeric > 1000000000
              or (v_field = 'factor' and (v_value #>> '{}')::numeric < 1)
              or (v_field = 'jitter' and (v_value #>> '{}')::numeric > 1) then
            perform redrive._refuse(format(
                'policy field backoff.%s is %s; base and cap are seconds >= 0, factor is >= 1, jitter is from 0 to 1', v_field, v_value));
        end if;
    end loop;
end
$$;
revoke all on function redrive._check_backoff(jsonb) from public;
