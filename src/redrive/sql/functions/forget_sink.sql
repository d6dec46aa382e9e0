-- forget_sink: nobody is told of anything in this sink any more, and what waits for it goes. False when it is not known. A process that
-- still has it names it again within a minute; one that no process has named for a day is forgotten without this.
-- part: operate
create function redrive.forget_sink(p_sink text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    delete from redrive.alert_delivery d where d.sink = p_sink and d.delivered_at is null;
    delete from redrive.alert_sink s where s.name = p_sink;
    return found;
end
$$;
revoke all on function redrive.forget_sink(text) from public;
