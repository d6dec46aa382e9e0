-- _count_refused: add to the day's count of what a source was refused for.
create function redrive._count_refused(p_source text, p_reason text, p_count bigint, p_at timestamptz) returns void
language sql set search_path = pg_catalog, pg_temp
as $$
    insert into redrive.webhook_count as c (source, reason, day, total, last_at)
         values (p_source, p_reason, (p_at at time zone 'UTC')::date, p_count, p_at)
    on conflict (source, reason, day) do update set total = c.total + excluded.total, last_at = greatest(c.last_at, excluded.last_at)
$$;
revoke all on function redrive._count_refused(text, text, bigint, timestamptz) from public;
