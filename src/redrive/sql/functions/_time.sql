-- _time: a time somebody wrote into a dead letter; null where it is none, so that one bad row hides no other.
create function redrive._time(p_text text) returns timestamptz
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
    return p_text::timestamptz;
exception
    when data_exception then
        return null;
end
$$;
revoke all on function redrive._time(text) from public;
