-- _refuse: raise 22023 (invalid argument) with the given sentence.
create function redrive._refuse(p_sentence text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception '%', p_sentence using errcode = '22023';
end
$$;
revoke all on function redrive._refuse(text) from public;
