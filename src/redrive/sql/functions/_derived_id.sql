-- _derived_id: under which id an event is recorded whose id was made from a state: that of the earlier event, which then
-- suppresses it, or a new one with the time appended. Of several at once the first decides; the others wait for it here.
create function redrive._derived_id(p_source text, p_event_id text, p_now timestamptz) returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_id text;
    v_suppresses boolean;
begin
    perform pg_advisory_xact_lock(hashtextextended('event:' || p_source || ':' || p_event_id, 0));
    -- In the C collation an id's successors stand together behind it, the newest last: A follows @.
    select e.event_id, e.status = 'received' or e.received_at > p_now - interval '2 hours' into v_id, v_suppresses
      from redrive.webhook_event e
     where e.source = p_source and e.event_id >= p_event_id || '@' and e.event_id < p_event_id || 'A'
       and substr(e.event_id, length(p_event_id) + 1) ~ '^@[0-9]{4}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]\.[0-9]{6}Z$'
     order by e.event_id desc limit 1;
    if not found then
        select e.event_id, e.status = 'received' or e.received_at > p_now - interval '2 hours' into v_id, v_suppresses
          from redrive.webhook_event e where e.source = p_source and e.event_id = p_event_id;
    end if;
    return case when not found then p_event_id
                when v_suppresses then v_id
                else p_event_id || '@' || to_char(p_now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') end;
end
$$;
revoke all on function redrive._derived_id(text, text, timestamptz) from public;
