-- _check_policy: refuse a policy object with an unknown field or a value that can never be right; the error names it.
create function redrive._check_policy(p_policy jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_field text;
    v_value jsonb;
    v_known constant text[] := array['max_attempts', 'visibility_timeout', 'timeout', 'backoff', 'concurrency', 'single_flight',
                                     'key_field', 'key_retention', 'archive', 'archive_retention', 'archive_max_rows',
                                     'archive_max_bytes', 'notify', 'paused'];
begin
    if p_policy is null or jsonb_typeof(p_policy) <> 'object' then
        perform redrive._refuse('policy must be a JSON object');
    end if;
    for v_field, v_value in select key, value from jsonb_each(p_policy) loop
        if v_field <> all (v_known) then
            perform redrive._refuse(format('policy field %s is unknown; the fields are %s', v_field, array_to_string(v_known, ', ')));
        elsif v_field in ('archive', 'notify', 'paused', 'single_flight') then
            if jsonb_typeof(v_value) <> 'boolean' then
                perform redrive._refuse(format('policy field %s is %s; it must be true or false', v_field, v_value));
            end if;
        elsif v_field = 'key_field' then
            if jsonb_typeof(v_value) not in ('string', 'null') then
                perform redrive._refuse(format('policy field key_field is %s; it must be a field name, or null for none', v_value));
            end if;
        elsif v_field = 'backoff' then
            perform redrive._check_backoff(v_value);
        elsif jsonb_typeof(v_value) = 'null' and v_field in ('timeout', 'concurrency', 'archive_retention', 'archive_max_rows', 'archive_max_bytes') then
            null;
        elsif v_field in ('archive_max_rows', 'archive_max_bytes') then
            if jsonb_typeof(v_value) <> 'number' or (v_value #>> '{}')::numeric not between 1 and 1000000000000000
               or (v_value #>> '{}')::numeric % 1 <> 0 then
                perform redrive._refuse(format('policy field %s is %s; it must be a whole number from 1 to 1000000000000000, or null for no limit', v_field, v_value));
            end if;
        elsif jsonb_typeof(v_value) <> 'number' or (v_value #>> '{}')::numeric <= 0 or (v_value #>> '{}')::numeric > 1000000000 then
            perform redrive._refuse(format('policy field %s is %s; it must be a number above 0, at most 1000000000', v_field, v_value));
        elsif v_field in ('max_attempts', 'concurrency')
              and ((v_value #>> '{}')::numeric % 1 <> 0 or (v_value #>> '{}')::numeric > 1000000) then
            perform redrive._refuse(format('policy field %s is %s; it must be a whole number from 1 to 1000000', v_field, v_value));
        elsif v_field = 'visibility_timeout' and (v_value #>> '{}')::numeric < 1 then
            perform redrive._refuse(format('policy field visibility_timeout is %s; it must be at least 1 second', v_value));
        end if;
    end loop;
end
$$;
revoke all on function redrive._check_policy(jsonb) from public;
