-- _archive_cutoff: what was archived before this time may go: by age, rows and bytes, whichever asks for most; null: nothing.
-- Rows are first taken from statistics; where these say that there are too many, the newest that stay are walked along the
-- index, so that never a row too many goes: 1,000,000 take 0.24 s. Rows that were archived in one moment stay together.
create function redrive._archive_cutoff(q redrive.queue) returns timestamptz
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_cutoff timestamptz := redrive.clock() - make_interval(secs => q.archive_retention::float8);
    v_keep bigint := q.archive_max_rows;
    v_by_rows timestamptz;
begin
    if q.archive_max_bytes is not null then
        v_keep := least(v_keep, (q.archive_max_bytes / greatest(redrive._row_bytes(q), 1))::bigint);
    end if;
    if v_keep is not null and redrive._rows_of(format('pgmq.%I', 'a_' || q.queue)) > v_keep then
        if v_keep = 0 then
            v_by_rows := 'infinity';
        else
            execute format('select a.archived_at from pgmq.%I a order by a.archived_at desc offset $1 limit 1', 'a_' || q.queue)
               into v_by_rows using v_keep - 1;
        end if;
    end if;
    return greatest(v_cutoff, v_by_rows);
exception when lock_not_available then
    raise exception '%', redrive._purge_trouble(format('pgmq.%I', 'a_' || q.queue), '55P03', null, null, null) using errcode = '55P03';
end
$$;
revoke all on function redrive._archive_cutoff(redrive.queue) from public;
