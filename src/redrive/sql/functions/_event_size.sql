-- _event_size: bytes of an event's message as it will be handed out. A few bytes may be a hundred thousand digits: what comes out is
-- measured, or no worker could take it.
create function redrive._event_size(p_message jsonb) returns integer
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
    v_size constant integer := octet_length(p_message::text);
begin
    if v_size > 268435455 then
        raise exception 'the payload of the event is % bytes of JSON; the most is 268435455; record it without a payload', v_size using errcode = '54000';
    end if;
    return v_size;
end
$$;
revoke all on function redrive._event_size(jsonb) from public;
