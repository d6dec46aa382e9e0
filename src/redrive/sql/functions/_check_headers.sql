-- _check_headers: a caller's headers are an object, and the prefix x-redrive- is ours.
create function redrive._check_headers(p_headers jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if p_headers is null then
        return;
    elsif jsonb_typeof(p_headers) <> 'object' then
        perform redrive._refuse(format('headers are %s; they must be a JSON object', jsonb_typeof(p_headers)));
    elsif exists (select from jsonb_object_keys(p_headers) h where lower(h) like 'x-redrive-%') then
        perform redrive._refuse('headers that begin with x-redrive- are redrive''s own; use another name');
    end if;
end
$$;
revoke all on function redrive._check_headers(jsonb) from public;
