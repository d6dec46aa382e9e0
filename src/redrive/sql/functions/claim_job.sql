-- claim_job: the article's at-most-once claim: true for the first caller of a key, ever (30 days); null for every other.
-- Waits for another open transaction with this key, since its answer is final.
-- part: work
create function redrive.claim_job(p_key text, p_queue text default '') returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
begin
    if p_key is null or p_queue is null then
        perform redrive._refuse('claim_job takes a key and a queue name, not null');
    end if;
    perform redrive._check_key(p_key);
    perform pg_advisory_xact_lock(hashtextextended(p_queue || ':' || p_key, 0));
    insert into redrive.key as k (queue, key, state, owner, done_at, expires_at)
         values (p_queue, p_key, 'done', 'claim_job', v_now, v_now + redrive._retention(p_queue))
    on conflict (queue, key) do update
        set state = 'done', owner_msg = null, owner = 'claim_job', lease_until = null, done_at = v_now, expires_at = excluded.expires_at, result = null
      where k.state = 'done' and k.expires_at <= v_now or k.state = 'running' and k.lease_until <= v_now;
    return case when found then true end;
end
$$;
revoke all on function redrive.claim_job(text, text) from public;
