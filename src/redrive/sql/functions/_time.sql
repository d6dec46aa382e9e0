-- _time: a time somebody wrote into a dead letter; null where it is none, or one that no client can read (what is infinite, before
-- the year 1 or after 9999, in whatever time zone), so that one bad row hides no other.
create function redrive._time(p_text text) returns timestamptz
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_time timestamptz;
begin
    v_time := p_text::timestamptz;
    return case when v_time >= '0001-01-02 00:00:00+00' and v_time < '9999-12-31 00:00:00+00' then v_time end;
exception
    when data_exception then
        return null;
end
$$;
revoke all on function redrive._time(text) from public;
