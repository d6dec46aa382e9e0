-- _check_rule: refuse an object of rule fields with an unknown field or a value that can never be right; the error names it.
create function redrive._check_rule(p_fields jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_known constant text[] := array['gauge', 'operator', 'threshold', 'clear_at', 'for_sec', 'remind_sec', 'severity', 'queue_pattern', 'enabled',
                                     'summary', 'command'];
    v_choices constant jsonb := '{"operator": [">", ">=", "<", "<="], "severity": ["info", "warning", "critical"]}'::jsonb;
    v_field text;
    v_value jsonb;
begin
    if p_fields is null or jsonb_typeof(p_fields) <> 'object' or p_fields = '{}' then
        perform redrive._refuse('rule fields must be a JSON object with at least one field');
    end if;
    for v_field, v_value in select key, value from jsonb_each(p_fields) loop
        if v_field <> all (v_known) then
            perform redrive._refuse(format('rule field %s is unknown; the fields are %s', v_field, array_to_string(v_known, ', ')));
        elsif v_field = 'enabled' then
            if jsonb_typeof(v_value) <> 'boolean' then
                perform redrive._refuse(format('rule field enabled is %s; it must be true or false', v_value));
            end if;
        elsif jsonb_typeof(v_value) = 'null' and v_field in ('clear_at', 'remind_sec', 'queue_pattern', 'summary', 'command') then
            null;
        elsif v_field in ('threshold', 'clear_at', 'for_sec', 'remind_sec') then
            if jsonb_typeof(v_value) <> 'number' or abs((v_value #>> '{}')::numeric) > 1e15 then
                perform redrive._refuse(format('rule field %s is %s; it must be a number', v_field, v_value));
            elsif v_field in ('for_sec', 'remind_sec') and (v_value #>> '{}')::numeric not between 0 and 31536000
                  or v_field = 'remind_sec' and (v_value #>> '{}')::numeric < 1 then
                perform redrive._refuse(format('rule field %s is %s; it must be seconds, a year at most%s', v_field, v_value,
                                               case when v_field = 'remind_sec' then ', or null for no reminder' else ', and not below 0' end));
            end if;
        elsif jsonb_typeof(v_value) <> 'string' or length(v_value #>> '{}') not between 1 and 500 then
            perform redrive._refuse(format('rule field %s is %s; it must be a text of 1 to 500 characters', v_field, left(v_value::text, 100)));
        elsif v_choices ? v_field and not (v_choices -> v_field @> v_value) then
            perform redrive._refuse(format('rule field %s is %s; it must be one of %s', v_field, v_value, v_choices -> v_field));
        elsif v_field = 'gauge' and not exists (select from redrive._gauge_names() g where g.gauge = v_value #>> '{}') then
            perform redrive._refuse(format('gauge %s is unknown; the gauges are %s', v_value,
                                           (select string_agg(g.gauge, ', ' order by g.gauge) from redrive._gauge_names() g)));
        end if;
    end loop;
end
$$;
revoke all on function redrive._check_rule(jsonb) from public;
