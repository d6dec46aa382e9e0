-- _check_event: refuse an event that cannot be recorded. Bodies are not judged: whatever was signed is recorded.
create function redrive._check_event(p_source text, p_event_id text, p_type text, p_raw bytea, p_resource text, p_origin text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if p_source is null or p_source = '' or length(p_source) > 255 then
        perform redrive._refuse('the source of an event is its name, of 1 to 255 characters');
    elsif p_event_id is null or p_event_id = '' or length(p_event_id) > 255 then
        perform redrive._refuse('the id of an event is text of 1 to 255 characters; where a provider sends none, give sha256: and the hash of the body');
    elsif p_type is null or length(p_type) > 255 then
        perform redrive._refuse('the type of an event is text of at most 255 characters; where there is none, give unknown');
    elsif length(p_resource) > 512 then
        perform redrive._refuse('the resource of an event is text of at most 512 characters, or null');
    elsif p_raw is null then
        perform redrive._refuse('the raw body of an event is null; give its bytes as they were received, of which there may be none');
    elsif p_origin is null or p_origin not in ('webhook', 'reconcile') then
        perform redrive._refuse(format('origin is %s; it must be webhook or reconcile', coalesce(p_origin, 'null')));
    end if;
end
$$;
revoke all on function redrive._check_event(text, text, text, bytea, text, text) from public;
