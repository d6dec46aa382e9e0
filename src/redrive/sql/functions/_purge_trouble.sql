-- _purge_trouble: why nothing was deleted from a table, in one sentence that names it.
create function redrive._purge_trouble(p_relation text, p_state text, p_error text, p_constraint text, p_of text) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case
        when p_state = '55P03' then format('%s is locked by somebody else for longer than a second; nothing of it was deleted', p_relation)
        when p_state like '23%' and p_constraint <> '' then
            format('%s: constraint %s of table %s still needs rows that are over, so nothing of it was deleted; drop it, '
                   'or declare it on delete cascade', p_relation, p_constraint, p_of)
        else format('%s: %s; nothing of it was deleted', p_relation, p_error) end
$$;
revoke all on function redrive._purge_trouble(text, text, text, text, text) from public;
