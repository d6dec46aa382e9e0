-- _purge_sent_keys: of the keys of sent messages, the next ten batches' worth are looked at: those whose messages are all gone from the queue
-- (a purge past redrive) go. Held first, looked up after: a sender that adds a message meanwhile has committed or is waiting.
create function redrive._purge_sent_keys(p_batch integer) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
as $$
declare
    v_place redrive.retention_place;
    v_queue text;
    v_keys text[];
    v_last text;
    v_seen integer;
    v_done bigint := 0;
    v_now bigint;
begin
    insert into redrive.retention_place (what, queue, key) values ('sent_keys', '', '') on conflict do nothing;
    select * into v_place from redrive.retention_place p where p.what = 'sent_keys' for update skip locked;
    if not found then
        return 0;
    end if;
    for n in 1 .. 10 loop
        select min(s.queue), count(*), (array_agg(s.key order by s.key desc))[1] into v_queue, v_seen, v_last
          from (select k.queue, k.key from redrive.sent_key k
                 where k.queue = v_place.queue and k.key > v_place.key order by k.key limit p_batch) s;
        if v_seen = 0 then
            select k.queue, '' into v_place.queue, v_place.key from redrive.sent_key k where k.queue > v_place.queue order by k.queue limit 1;
            if not found then
                v_place.queue := '';
                v_place.key := '';
                exit;
            end if;
            continue;
        end if;
        v_keys := array(select k.key from redrive.sent_key k
                         where k.queue = v_queue and k.key > v_place.key and k.key <= v_last order by k.key for update skip locked);
        v_place.key := v_last;
        begin
            if to_regclass(format('pgmq.%I', 'q_' || v_queue)) is not null then
                execute format('delete from redrive.sent_key s where s.queue = $1 and s.key = any ($2)
                                   and not exists (select from pgmq.%I m where m.msg_id = any (s.msg_ids))', 'q_' || v_queue) using v_queue, v_keys;
            else
                delete from redrive.sent_key s where s.queue = v_queue and s.key = any (v_keys);
            end if;
            get diagnostics v_now = row_count;
        exception when lock_not_available then
            -- This queue another time: on to the next one.
            raise warning '%', redrive._purge_trouble(format('pgmq.%I', 'q_' || v_queue), '55P03', null, null, null);
            v_now := 0;
            select k.queue, '' into v_place.queue, v_place.key from redrive.sent_key k where k.queue > v_queue order by k.queue limit 1;
            if not found then
                v_place.queue := '';
                v_place.key := '';
                exit;
            end if;
        end;
        v_done := v_done + v_now;
    end loop;
    update redrive.retention_place p set queue = v_place.queue, key = v_place.key where p.what = 'sent_keys';
    return v_done;
end
$$;
revoke all on function redrive._purge_sent_keys(integer) from public;
