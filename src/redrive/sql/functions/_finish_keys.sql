-- _finish_keys: the keys of messages that ended. Done ones are remembered for the policy's key_retention, all others are free.
-- Never waits: a row that somebody's transaction holds is left, and ends with its lease.
create function redrive._finish_keys(q redrive.queue, p_keys text[], p_owners bigint[], p_outcome text) returns void
language plpgsql set search_path = ''
as $$
declare
    v_now timestamptz := redrive.clock();
begin
    if p_outcome = 'done' then
        execute 'with mine as (
                     select k.key from redrive.key k where k.queue = $1 and k.key = any ($2) and k.owner_msg = any ($3)
                      order by k.key for update skip locked)
                 update redrive.key k
                    set state = ''done'', lease_until = null, done_at = $4, expires_at = $4 + make_interval(secs => $5)
                   from mine where k.queue = $1 and k.key = mine.key'
          using q.queue, p_keys, p_owners, v_now, q.key_retention::float8;
        -- Ended by somebody who never took the key (queue_archive after a read by hand): remembered all the same.
        execute 'insert into redrive.key (queue, key, state, owner_msg, done_at, expires_at)
                 select $1, f.key, ''done'', f.owner, $4, $4 + make_interval(secs => $5)
                   from (select distinct on (key) key, owner from unnest($2, $3) f(key, owner) order by key) f
                  where not exists (select from redrive.key k where k.queue = $1 and k.key = f.key)
                    and pg_try_advisory_xact_lock(hashtextextended($1 || '':'' || f.key, 0))
                 on conflict do nothing'
          using q.queue, p_keys, p_owners, v_now, q.key_retention::float8;
    elsif p_outcome <> 'duplicate' then
        perform redrive._free_keys(q.queue, p_keys, p_owners);
    end if;
    execute 'with held as (select s.key from redrive.sent_key s where s.queue = $1 and s.key = any ($2) order by s.key for update skip locked),
                  rest as (select s.key, array(select i from unnest(s.msg_ids) i where i <> all ($3)) as msg_ids
                             from redrive.sent_key s join held on held.key = s.key where s.queue = $1),
                  gone as (delete from redrive.sent_key s using rest where s.queue = $1 and s.key = rest.key and rest.msg_ids = ''{}'')
             update redrive.sent_key s set msg_ids = rest.msg_ids from rest where s.queue = $1 and s.key = rest.key and rest.msg_ids <> ''{}'''
      using q.queue, p_keys, p_owners;
end
$$;
revoke all on function redrive._finish_keys(redrive.queue, text[], bigint[], text) from public;
