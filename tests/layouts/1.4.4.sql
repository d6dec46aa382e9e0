-- The shape of pgmq 1.4.4: no headers anywhere, one send, racy create, purge by DELETE.
-- Columns, indexes, names and signatures as that version has them; the bodies are ours.
create schema pgmq;

create table pgmq.meta (
    queue_name     varchar not null unique,
    is_partitioned boolean not null,
    is_unlogged    boolean not null,
    created_at     timestamptz not null default now()
);

create type pgmq.message_record as (
    msg_id      bigint,
    read_ct     integer,
    enqueued_at timestamptz,
    vt          timestamptz,
    message     jsonb
);

create type pgmq.queue_record as (
    queue_name     varchar,
    is_partitioned boolean,
    is_unlogged    boolean,
    created_at     timestamptz
);

create type pgmq.metrics_result as (
    queue_name         text,
    queue_length       bigint,
    newest_msg_age_sec integer,
    oldest_msg_age_sec integer,
    total_messages     bigint,
    scrape_time        timestamptz
);

create function pgmq.format_table_name(queue_name text, prefix text) returns text language plpgsql as $$
begin
    if queue_name ~ '\$|;|--|''' or queue_name is null then
        raise exception 'queue name contains invalid characters: $, ;, --, or \''';
    end if;
    return lower(prefix || '_' || queue_name);
end $$;

create function pgmq.validate_queue_name(queue_name text) returns void language plpgsql as $$
begin
    if length(queue_name) >= 48 then
        raise exception 'queue name is too long, maximum length is 48 characters';
    end if;
end $$;

-- No advisory lock: two at once meet in the catalogue (23505), as upstream up to 1.5.1.
create function pgmq._create(queue_name text, unlogged boolean) returns void language plpgsql as $$
declare
    q text := pgmq.format_table_name(queue_name, 'q');
    a text := pgmq.format_table_name(queue_name, 'a');
begin
    perform pgmq.validate_queue_name(queue_name);
    execute format(
        'create %s table if not exists pgmq.%I (
            msg_id bigint primary key generated always as identity,
            read_ct integer not null default 0,
            enqueued_at timestamptz not null default now(),
            vt timestamptz not null,
            message jsonb)', case when unlogged then 'unlogged' else '' end, q);
    execute format(
        'create table if not exists pgmq.%I (
            msg_id bigint primary key,
            read_ct integer not null default 0,
            enqueued_at timestamptz not null default now(),
            archived_at timestamptz not null default now(),
            vt timestamptz not null,
            message jsonb)', a);
    execute format('create index if not exists %I on pgmq.%I (vt)', q || '_vt_idx', q);
    execute format('create index if not exists %I on pgmq.%I (archived_at)', 'archived_at_idx_' || queue_name, a);
    insert into pgmq.meta (queue_name, is_partitioned, is_unlogged)
        values (queue_name, false, unlogged) on conflict do nothing;
end $$;

create function pgmq.create(queue_name text) returns void language sql as
    $$ select pgmq._create(queue_name, false) $$;
create function pgmq.create_non_partitioned(queue_name text) returns void language sql as
    $$ select pgmq._create(queue_name, false) $$;
create function pgmq.create_unlogged(queue_name text) returns void language sql as
    $$ select pgmq._create(queue_name, true) $$;

create function pgmq.send(queue_name text, msg jsonb, delay integer default 0) returns setof bigint
language plpgsql as $$
begin
    return query execute format(
        'insert into pgmq.%I (vt, message) values (clock_timestamp() + $2, $1) returning msg_id',
        pgmq.format_table_name(queue_name, 'q')) using msg, make_interval(secs => delay);
end $$;

create function pgmq.send_batch(queue_name text, msgs jsonb[], delay integer default 0) returns setof bigint
language plpgsql as $$
begin
    return query execute format(
        'insert into pgmq.%I (vt, message) select clock_timestamp() + $2, unnest($1) returning msg_id',
        pgmq.format_table_name(queue_name, 'q')) using msgs, make_interval(secs => delay);
end $$;

create function pgmq.read(queue_name text, vt integer, qty integer) returns setof pgmq.message_record
language plpgsql as $$
begin
    return query execute format(
        'with picked as (
            select msg_id from pgmq.%1$I where vt <= clock_timestamp() order by msg_id limit $1 for update skip locked)
         update pgmq.%1$I m set vt = clock_timestamp() + $2, read_ct = m.read_ct + 1
           from picked where m.msg_id = picked.msg_id
         returning m.msg_id, m.read_ct, m.enqueued_at, m.vt, m.message',
        pgmq.format_table_name(queue_name, 'q')) using qty, make_interval(secs => vt);
end $$;

create function pgmq.read_with_poll(
    queue_name text, vt integer, qty integer, max_poll_seconds integer default 5, poll_interval_ms integer default 100
) returns setof pgmq.message_record language plpgsql as $$
declare
    until timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
begin
    loop
        return query select * from pgmq.read(queue_name, vt, qty);
        if found or clock_timestamp() >= until then
            return;
        end if;
        perform pg_sleep(poll_interval_ms / 1000.0);
    end loop;
end $$;

create function pgmq.pop(queue_name text) returns setof pgmq.message_record language plpgsql as $$
begin
    return query execute format(
        'with picked as (
            select msg_id from pgmq.%1$I where vt <= now() order by msg_id limit 1 for update skip locked)
         delete from pgmq.%1$I where msg_id = (select msg_id from picked)
         returning msg_id, read_ct, enqueued_at, vt, message', pgmq.format_table_name(queue_name, 'q'));
end $$;

create function pgmq.set_vt(queue_name text, msg_id bigint, vt integer) returns setof pgmq.message_record
language plpgsql as $$
begin
    return query execute format(
        'update pgmq.%I set vt = clock_timestamp() + $2 where msg_id = $1
         returning msg_id, read_ct, enqueued_at, vt, message', pgmq.format_table_name(queue_name, 'q'))
        using msg_id, make_interval(secs => vt);
end $$;

create function pgmq.archive(queue_name text, msg_ids bigint[]) returns setof bigint language plpgsql as $$
begin
    return query execute format(
        'with gone as (
            delete from pgmq.%I where msg_id = any ($1) returning msg_id, read_ct, enqueued_at, vt, message)
         insert into pgmq.%I (msg_id, read_ct, enqueued_at, vt, message)
         select msg_id, read_ct, enqueued_at, vt, message from gone returning msg_id',
        pgmq.format_table_name(queue_name, 'q'), pgmq.format_table_name(queue_name, 'a')) using msg_ids;
end $$;
create function pgmq.archive(queue_name text, msg_id bigint) returns boolean language sql as
    $$ select exists (select pgmq.archive(queue_name, array[msg_id])) $$;

create function pgmq.delete(queue_name text, msg_ids bigint[]) returns setof bigint language plpgsql as $$
begin
    return query execute format('delete from pgmq.%I where msg_id = any ($1) returning msg_id',
        pgmq.format_table_name(queue_name, 'q')) using msg_ids;
end $$;
create function pgmq.delete(queue_name text, msg_id bigint) returns boolean language sql as
    $$ select exists (select pgmq.delete(queue_name, array[msg_id])) $$;

create function pgmq.drop_queue(queue_name text, partitioned boolean default false) returns boolean
language plpgsql as $$
begin
    execute format('drop table pgmq.%I', pgmq.format_table_name(queue_name, 'q'));
    execute format('drop table pgmq.%I', pgmq.format_table_name(queue_name, 'a'));
    delete from pgmq.meta m where m.queue_name = drop_queue.queue_name;
    return true;
end $$;

create function pgmq.purge_queue(queue_name text) returns bigint language plpgsql as $$
declare
    gone bigint;
begin
    execute format('delete from pgmq.%I', pgmq.format_table_name(queue_name, 'q'));
    get diagnostics gone = row_count;
    return gone;
end $$;

create function pgmq.list_queues() returns setof pgmq.queue_record language sql as
    $$ select queue_name, is_partitioned, is_unlogged, created_at from pgmq.meta $$;

create function pgmq.metrics(queue_name text) returns pgmq.metrics_result language plpgsql as $$
declare
    answer pgmq.metrics_result;
    q text := pgmq.format_table_name(queue_name, 'q');
begin
    execute format(
        'select $1, count(*), extract(epoch from now() - max(enqueued_at))::integer,
                extract(epoch from now() - min(enqueued_at))::integer,
                (select case when is_called then last_value else 0 end from pgmq.%I), now()
           from pgmq.%I', q || '_msg_id_seq', q) into answer using queue_name;
    return answer;
end $$;

create function pgmq.metrics_all() returns setof pgmq.metrics_result language sql as
    $$ select m.* from pgmq.meta q, pgmq.metrics(q.queue_name) m $$;
