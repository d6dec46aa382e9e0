-- _without_url: a text without this URL and any other.
create function redrive._without_url(p_text text, p_url text) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select left(regexp_replace(case when p_url <> '' then replace(p_text, p_url, '<url>') else p_text end, '\w+://\S+', '<url>', 'g'), 300)
$$;
revoke all on function redrive._without_url(text, text) from public;
