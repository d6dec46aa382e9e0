-- _pick_of: these places of an array, in order; null stays null.
create function redrive._pick_of(p_values anyarray, p_places bigint[]) returns anyarray
language sql immutable strict set search_path = pg_catalog, pg_temp
as $$ select array(select p_values[n::integer] from unnest(p_places) with ordinality p(n, o) order by o) $$;
revoke all on function redrive._pick_of(anyarray, bigint[]) from public;
