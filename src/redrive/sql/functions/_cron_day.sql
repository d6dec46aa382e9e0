-- _cron_day: is a day one of those of a month, and one of those of a week, of a cron text (numbers as of redrive._cron_field)? p_both: as in
-- Debian's cron both have to hold where one begins with *, else either is enough.
create function redrive._cron_day(p_day date, p_days integer[], p_weekdays integer[], p_both boolean) returns boolean
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
    v_last constant date := (date_trunc('month', p_day::timestamp) + interval '1 month - 1 day')::date;
    v_dom constant integer := extract(day from p_day);
    v_dow constant integer := extract(dow from p_day);
    v_of_month boolean := v_dom = any (p_days) or -1 = any (p_days) and p_day = v_last
        or -2 = any (p_days) and p_day = v_last - case extract(dow from v_last) when 0 then 2 when 6 then 1 else 0 end;
    -- Sunday is 0 and 7.
    v_of_week boolean := exists (select from unnest(p_weekdays) w
                                  where w % 100 % 7 = v_dow and (w < 100 or w / 100 = (v_dom + 6) / 7 or w >= 600 and p_day + 7 > v_last));
begin
    return case when p_both then v_of_month and v_of_week else v_of_month or v_of_week end;
end
$$;
revoke all on function redrive._cron_day(date, integer[], integer[], boolean) from public;
