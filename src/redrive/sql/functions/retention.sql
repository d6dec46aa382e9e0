-- retention: what is kept for how long, and whether what is over stays: rows (estimated), bytes (rows times what one takes), the
-- oldest that may go one day, and for how long it has been overdue. Cheap: statistics, and a look at the beginning of each index.
-- Above a limit of rows or bytes, overdue_sec is about the time whose rows are too many. A table that is broken or locked breaks no
-- other: its rows are null.
-- part: work, operate, read
create function redrive.retention()
returns table (what text, queue text, keep_sec numeric, max_rows bigint, max_bytes bigint, rows bigint, bytes bigint, oldest_at timestamptz,
               overdue_sec double precision)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
    v_now timestamptz := redrive.clock();
    q redrive.queue;
    t record;
    v_what text;
    v_oldest timestamptz;
    v_over double precision;
begin
    for q in select * from redrive.queue r order by r.queue loop
        what := 'archive'; queue := q.queue; keep_sec := q.archive_retention; max_rows := q.archive_max_rows; max_bytes := q.archive_max_bytes;
        rows := null; bytes := null; oldest_at := null; overdue_sec := null;
        begin
            execute format('select a.archived_at from pgmq.%I a order by a.archived_at limit 1', 'a_' || q.queue) into oldest_at;
            rows := case when oldest_at is null then 0 else redrive._rows_of(format('pgmq.%I', 'a_' || q.queue)) end;
            bytes := case when rows = 0 then 0 else round(rows * redrive._row_bytes(q)) end;
            v_over := greatest(1 - max_rows / nullif(rows, 0)::float8, 1 - max_bytes / nullif(bytes, 0)::float8, 0);
            overdue_sec := nullif(greatest(extract(epoch from v_now - oldest_at) - keep_sec, v_over * extract(epoch from v_now - oldest_at), 0), 0);
        exception when others then
            rows := null;
        end;
        return next;
        -- Dead letters that were sent again or discarded: by age alone.
        what := 'letters'; max_rows := null; max_bytes := null; rows := null; bytes := null; oldest_at := null; overdue_sec := null;
        begin
            execute format('select a.archived_at from pgmq.%I a order by a.archived_at limit 1', 'a_' || q.queue || '_dlq') into oldest_at;
            rows := case when oldest_at is null then 0 else redrive._rows_of(format('pgmq.%I', 'a_' || q.queue || '_dlq')) end;
            overdue_sec := nullif(greatest(extract(epoch from v_now - oldest_at) - keep_sec, 0), 0);
        exception when others then
            rows := null;
        end;
        return next;
    end loop;
    queue := null; max_rows := null; max_bytes := null; bytes := null;
    foreach v_what in array array['failures', 'keys', 'sent_keys', 'events', 'refused', 'fetched', 'runs', 'alerts', 'workers'] loop
        what := v_what; keep_sec := redrive._keep(v_what); oldest_at := null; rows := 0; overdue_sec := null;
        begin
            if v_what = 'sent_keys' then
                rows := redrive._rows_of('redrive.sent_key');
            end if;
            for t in select g.relation, g.condition, g.sort, row_number() over (partition by g.relation) as n from redrive._targets(v_what) g loop
                execute format('select (%s)::timestamptz from %s t where %s order by %s limit 1', t.sort, t.relation, t.condition, t.sort)
                   into v_oldest using 'infinity'::timestamptz;
                oldest_at := least(oldest_at, v_oldest);
                rows := rows + case when t.n = 1 then redrive._rows_of(t.relation) else 0 end;
            end loop;
            -- A key is over at once when its own time is.
            overdue_sec := nullif(greatest(extract(epoch from v_now - oldest_at) - coalesce(keep_sec, 0), 0), 0);
        exception when others then
            rows := null; oldest_at := null;
        end;
        return next;
    end loop;
end
$$;
revoke all on function redrive.retention() from public;
