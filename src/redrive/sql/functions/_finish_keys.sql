-- _finish_keys: the keys of messages that ended. Done ones are remembered for the policy's key_retention, all others are free.
-- For done the caller holds the key rows (settle), or may wait for them (queue_archive); what others hold is else left, and ends
-- with its lease.
create function redrive._finish_keys(q redrive.queue, p_keys text[], p_owners bigint[], p_outcome text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
    v_known integer;
begin
    if p_outcome in ('done', 'ignored') then
        execute 'update redrive.key k
                    set state = ''done'', lease_until = null, done_at = $4, expires_at = $4 + make_interval(secs => $5)
                  where k.queue = $1 and k.key = any ($2) and k.owner_msg = any ($3)'
          using q.queue, p_keys, p_owners, v_now, q.key_retention::float8;
        get diagnostics v_known = row_count;
        -- Ended by somebody who never took the key (queue_archive after a read by hand): remembered all the same.
        if v_known < cardinality(p_keys) then
            -- One that was finished by hand (finish_job) gets to know its message: a repeated send answers with its id.
            execute 'with held as (
                         select k.ctid as tid, k.key from redrive.key k
                          where k.queue = $1 and k.key = any ($2) and k.state = ''done'' and k.owner_msg is null order by k.key for update skip locked)
                     update redrive.key k set owner_msg = f.owner
                       from held h join (select distinct on (key) key, owner from unnest($2, $3) f(key, owner) order by key, owner) f on f.key = h.key
                      where k.ctid = h.tid'
              using q.queue, p_keys, p_owners;
            execute 'with there as materialized (select k.key from redrive.key k where k.queue = $1 and k.key = any ($2))
                     insert into redrive.key (queue, key, state, owner_msg, done_at, expires_at)
                     select $1, f.key, ''done'', f.owner, $4, $4 + make_interval(secs => $5)
                       from (select distinct on (key) key, owner from unnest($2, $3) f(key, owner) where length(key) <= 512 order by key) f
                      where not exists (select from there t where t.key = f.key)
                        and pg_try_advisory_xact_lock(hashtextextended($1 || '':'' || f.key, 0))
                     on conflict do nothing'
              using q.queue, p_keys, p_owners, v_now, q.key_retention::float8;
        end if;
    elsif p_outcome <> 'duplicate' then
        perform redrive._free_keys(q.queue, p_keys, p_owners);
    end if;
    execute 'with held as (
                 select s.ctid as tid, s.msg_ids from redrive.sent_key s where s.queue = $1 and s.key = any ($2) order by s.key for update skip locked),
             gone as (
                 delete from redrive.sent_key s using held h where s.ctid = h.tid and h.msg_ids <@ $3)
             update redrive.sent_key s set msg_ids = array(select i from unnest(h.msg_ids) i where i <> all ($3))
               from held h where s.ctid = h.tid and not h.msg_ids <@ $3 and h.msg_ids && $3'
      using q.queue, p_keys, p_owners;
end
$$;
revoke all on function redrive._finish_keys(redrive.queue, text[], bigint[], text) from public;
