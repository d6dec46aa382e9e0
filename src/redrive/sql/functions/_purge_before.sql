-- _purge_before: the time before which an operator wants what is over deleted; null p_older_than: what the rules say.
create function redrive._purge_before(p_what text, p_queue text, p_older_than interval) returns timestamptz
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
begin
    perform redrive._check_purge(p_what, p_queue);
    if p_older_than < interval '0' then
        perform redrive._refuse(format('older than %s is in the future; give an interval that is not negative', p_older_than));
    elsif p_older_than > interval '100 years' then
        perform redrive._refuse(format('older than %s is too long; the longest is 100 years', p_older_than));
    elsif p_what in ('archive', 'letters') then
        select * into q from redrive.queue r where r.queue = p_queue;
        if not found then
            perform redrive._no_queue(p_queue);
        end if;
        return case when p_older_than is not null then redrive.clock() - p_older_than
                    when p_what = 'archive' then redrive._archive_cutoff(q)
                    else redrive.clock() - make_interval(secs => q.archive_retention::float8) end;
    elsif p_what in ('keys', 'sent_keys') and p_older_than is not null then
        perform redrive._refuse(format('%s have no age to give: a key goes when its own time is over', p_what));
    end if;
    return redrive.clock() - coalesce(p_older_than, make_interval(secs => coalesce(redrive._keep(p_what), 0)::float8));
end
$$;
revoke all on function redrive._purge_before(text, text, interval) from public;
