-- begin_job: the two-phase claim of a key. 'claimed': yours for p_lease_seconds (asking again renews it); 'busy': somebody
-- else's, alive; 'done': completed before. End it with finish_job or abandon_job. Never waits.
-- part: work
create function redrive.begin_job(p_key text, p_owner text, p_lease_seconds numeric, p_queue text default '') returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
    v_until timestamptz;
    k redrive.key;
begin
    if p_key is null or p_owner is null or p_queue is null or p_lease_seconds is null or p_lease_seconds <= 0 or p_lease_seconds > 3155760000 then
        perform redrive._refuse('begin_job takes a key, an owner and a lease of more than 0 seconds');
    end if;
    perform redrive._check_key(p_key);
    v_until := v_now + make_interval(secs => p_lease_seconds::float8);
    select * into k from redrive.key where queue = p_queue and key = p_key for update skip locked;
    if found then
        if k.state = 'done' and k.expires_at > v_now then
            return 'done';
        elsif k.state = 'running' and k.lease_until > v_now and k.owner is distinct from p_owner then
            return 'busy';
        end if;
        update redrive.key
           set state = 'running', owner = p_owner, owner_msg = null, lease_until = v_until, done_at = null, expires_at = null, result = null
         where queue = p_queue and key = p_key;
        return 'claimed';
    elsif exists (select from redrive.key where queue = p_queue and key = p_key)
          or not pg_try_advisory_xact_lock(hashtextextended(p_queue || ':' || p_key, 0)) then
        return 'busy';
    end if;
    insert into redrive.key (queue, key, state, owner, lease_until) values (p_queue, p_key, 'running', p_owner, v_until) on conflict do nothing;
    return case when found then 'claimed' else 'busy' end;
end
$$;
revoke all on function redrive.begin_job(text, text, numeric, text) from public;
