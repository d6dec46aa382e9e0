-- _silence_of: the silence of an alert that ends last, or a row of nulls.
create function redrive._silence_of(p_rule text, p_subject text, p_now timestamptz) returns redrive.silence
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select s from redrive.silence s
     where s.until > p_now and (s.rule is null or s.rule = p_rule) and (s.subject is null or p_subject like redrive._like(s.subject))
     order by s.until desc limit 1
$$;
revoke all on function redrive._silence_of(text, text, timestamptz) from public;
