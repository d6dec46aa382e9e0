-- silences: those that are running, soonest over first. rule and subject null: any. known: is there something of that name, as far
-- as redrive knows?
-- part: operate, read
create function redrive.silences()
returns table (id bigint, rule text, subject text, until timestamptz, reason text, by text, at timestamptz, known boolean)
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select s.id, s.rule, s.subject, s.until, s.reason, s.by, s.at,
           s.subject is null or exists (select from redrive._subjects() k where k like redrive._like(s.subject))
      from redrive.silence s where s.until > redrive.clock() order by s.until, s.id
$$;
revoke all on function redrive.silences() from public;
