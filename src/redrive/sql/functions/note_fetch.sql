-- note_fetch: may this answer of a provider's API be written? True, and remembered, unless one that was asked for later has been
-- written already. p_at: redrive.clock() before the API was asked. Call it in the transaction that writes the answer:
-- its row is locked until that one ends, so that two answers for one resource are written one after the other.
-- part: work
create function redrive.note_fetch(p_source text, p_resource text, p_at timestamptz) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if p_source is null or p_resource is null or p_at is null or not isfinite(p_at) then
        perform redrive._refuse('note_fetch takes a source, a resource and a finite time, not null');
    end if;
    insert into redrive.fetched as f (source, resource, at) values (p_source, p_resource, p_at)
    on conflict (source, resource) do update set at = excluded.at where f.at <= excluded.at;
    return found;
end
$$;
revoke all on function redrive.note_fetch(text, text, timestamptz) from public;
