-- _like: a pattern with * as a LIKE pattern.
create function redrive._like(p_pattern text) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$ select replace(regexp_replace(p_pattern, '([\\%_])', '\\\1', 'g'), '*', '%') $$;
revoke all on function redrive._like(text) from public;
