-- On top of 1.5.1.sql: queues that were made by it and upgraded in place, so that last_read_at is the last column
-- of q_ and a_ while message_record has it in the middle. Every queue made from here on is made that way.
drop type pgmq.message_record cascade;
create type pgmq.message_record as (
    msg_id       bigint,
    read_ct      integer,
    enqueued_at  timestamptz,
    last_read_at timestamptz,
    vt           timestamptz,
    message      jsonb,
    headers      jsonb
);

create or replace function pgmq.create(queue_name text) returns void language plpgsql as $$
begin
    perform pgmq._create(queue_name, false);
    execute format('alter table pgmq.%I add column if not exists last_read_at timestamptz',
        pgmq.format_table_name(queue_name, 'q'));
    execute format('alter table pgmq.%I add column if not exists last_read_at timestamptz',
        pgmq.format_table_name(queue_name, 'a'));
end $$;

create function pgmq.read(queue_name text, vt integer, qty integer, conditional jsonb default '{}')
returns setof pgmq.message_record language plpgsql as $$
begin
    return query execute format(
        'with picked as (
            select msg_id from pgmq.%1$I
             where vt <= clock_timestamp() and ($3 is null or $3 = ''{}'' or message @> $3)
             order by msg_id limit $1 for update skip locked)
         update pgmq.%1$I m
            set last_read_at = clock_timestamp(), vt = clock_timestamp() + $2, read_ct = m.read_ct + 1
           from picked where m.msg_id = picked.msg_id
         returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers',
        pgmq.format_table_name(queue_name, 'q')) using qty, make_interval(secs => vt), conditional;
end $$;

create function pgmq.pop(queue_name text, qty integer default 1) returns setof pgmq.message_record
language plpgsql as $$
begin
    return query execute format(
        'with picked as (
            select msg_id from pgmq.%1$I where vt <= now() order by msg_id limit $1 for update skip locked)
         delete from pgmq.%1$I where msg_id in (select msg_id from picked)
         returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers',
        pgmq.format_table_name(queue_name, 'q')) using qty;
end $$;

create function pgmq.set_vt(queue_name text, msg_id bigint, vt integer) returns setof pgmq.message_record
language plpgsql as $$
begin
    return query execute format(
        'update pgmq.%I set vt = clock_timestamp() + $2 where msg_id = $1
         returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers',
        pgmq.format_table_name(queue_name, 'q')) using msg_id, make_interval(secs => vt);
end $$;

create or replace function pgmq.archive(queue_name text, msg_ids bigint[]) returns setof bigint
language plpgsql as $$
begin
    return query execute format(
        'with gone as (
            delete from pgmq.%I where msg_id = any ($1)
         returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
         insert into pgmq.%I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
         select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers from gone returning msg_id',
        pgmq.format_table_name(queue_name, 'q'), pgmq.format_table_name(queue_name, 'a')) using msg_ids;
end $$;
