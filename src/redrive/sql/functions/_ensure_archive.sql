-- _ensure_archive: the archive of a queue redrive has not adopted gets its outcome columns at the first end written there.
create function redrive._ensure_archive(q redrive.queue) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if q.adopted and not redrive._has_column(to_regclass(format('pgmq.%I', 'a_' || q.queue)), 'outcome') then
        execute format('alter table pgmq.%I add column if not exists outcome text, add column if not exists duration double precision', 'a_' || q.queue);
    end if;
end
$$;
revoke all on function redrive._ensure_archive(redrive.queue) from public;
