-- _check_key: a key is text of 1 to 512 characters, so that it fits an index entry whatever its alphabet.
create function redrive._check_key(p_key text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if p_key = '' or length(p_key) > 512 then
        perform redrive._refuse(format('key is %s characters; it must have 1 to 512', length(p_key)));
    end if;
end
$$;
revoke all on function redrive._check_key(text) from public;
