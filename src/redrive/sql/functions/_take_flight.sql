-- _take_flight: single flight: may this worker claim? Takes or renews the queue's lease until p_until; never waits.
create function redrive._take_flight(p_queue text, p_worker text, p_until timestamptz) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_name text := 'queue:' || p_queue;
    v_now timestamptz := redrive.clock();
    l redrive.lease;
begin
    if p_worker is null then
        perform redrive._refuse(format('queue %s is single flight; claim from it with a worker name', p_queue));
    end if;
    select * into l from redrive.lease where name = v_name for update skip locked;
    if found then
        if l.holder = p_worker then
            update redrive.lease set lease_until = greatest(lease_until, p_until) where name = v_name;
        elsif l.lease_until <= v_now then
            update redrive.lease
               set holder = p_worker, token = nextval('redrive.lease_token'), acquired_at = v_now, lease_until = p_until where name = v_name;
        else
            return false;
        end if;
        return true;
    elsif exists (select from redrive.lease where name = v_name) then
        return false;
    end if;
    insert into redrive.lease (name, token, holder, acquired_at, lease_until)
         values (v_name, nextval('redrive.lease_token'), p_worker, v_now, p_until)
    on conflict do nothing;
    return found;
end
$$;
revoke all on function redrive._take_flight(text, text, timestamptz) from public;
