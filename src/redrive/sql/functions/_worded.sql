-- _worded: a rule's summary or command with its words: {subject}, {value}, {limit}, {age}, {limit_age}, {percent}, {s} for
-- the s of more than one, and those of the reading. A word that is not known stays as it is written.
create function redrive._worded(p_text text, p_subject text, p_value double precision, p_limit double precision, p_detail jsonb) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
    v_word text;
    v_by text;
    v_figures constant jsonb := jsonb_build_object(
        'value', trim_scale(round(p_value::numeric, 3)), 'limit', trim_scale(round(p_limit::numeric, 3)), 'age', redrive._span(p_value),
        'limit_age', redrive._span(p_limit), 's', case when p_value = 1 then '' else 's' end,
        'percent', round(p_value::numeric * 100) || ' %');
begin
    -- The subject last: whoever named a source or a job may have named it {value}.
    for v_word, v_by in select key, value from jsonb_each_text(v_figures || coalesce(p_detail, '{}')) loop
        p_text := replace(p_text, '{' || v_word || '}', coalesce(v_by, 'unknown'));
    end loop;
    return left(replace(p_text, '{subject}', coalesce(nullif(p_subject, ''), 'all')), 1000);
end
$$;
revoke all on function redrive._worded(text, text, double precision, double precision, jsonb) from public;
