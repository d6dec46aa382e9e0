-- _span: seconds as people say them: 45 s, 12 min, 3 h 20 min, 2 d 4 h.
create function redrive._span(p_sec double precision) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case when p_sec is null then null
                when p_sec = 'infinity' then 'ever'
                when p_sec < 120 then round(p_sec::numeric) || ' s'
                when p_sec < 7200 then floor(p_sec / 60) || ' min'
                when p_sec < 172800 then floor(p_sec / 3600) || ' h' || coalesce(' ' || nullif(floor(p_sec::numeric % 3600 / 60), 0) || ' min', '')
                else floor(p_sec / 86400) || ' d' || coalesce(' ' || nullif(floor(p_sec::numeric % 86400 / 3600), 0) || ' h', '') end
$$;
revoke all on function redrive._span(double precision) from public;
