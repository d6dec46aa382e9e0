-- The tables of FastPix' state, and the article's view of its events, for inbox {source}. May run again and again.
-- Columns are named as the API names its fields, so they need double quotes. "state" is the API's whole answer, without
-- stream keys, secrets and signed upload URLs; "fetchedAt" is when it was asked for, by this database's clock.
create schema if not exists fastpix;

create table if not exists fastpix.media (
    "id"               text primary key,
    "status"           text,
    "createdAt"        timestamptz,
    "updatedAt"        timestamptz,
    "workspaceId"      text,
    "title"            text,
    "duration"         text,
    "aspectRatio"      text,
    "maxResolution"    text,
    "sourceResolution" text,
    "thumbnail"        text,
    "streamId"         text,
    "sourceMediaId"    text,
    "creatorId"        text,
    "mp4Support"       text,
    "isAudioOnly"      boolean,
    "sourceAccess"     boolean,
    "playbackIds"      jsonb,
    "tracks"           jsonb,
    "metadata"         jsonb,
    "state"            jsonb not null,
    "fetchedAt"        timestamptz not null
);

create table if not exists fastpix.live_streams (
    "streamId"          text primary key,
    "status"            text,
    "createdAt"         timestamptz,
    "workspaceId"       text,
    "maxResolution"     text,
    "reconnectWindow"   integer,
    "enableRecording"   boolean,
    "playbackIds"       jsonb,
    "mediaIds"          jsonb,
    "simulcastResponses" jsonb,
    "metadata"          jsonb,
    "state"             jsonb not null,
    "fetchedAt"         timestamptz not null
);

-- The API only lists uploads that are not used yet. One that is listed no more stays here with redrive's own status:
-- media_created with the "mediaId" it became, or ended.
create table if not exists fastpix.uploads (
    "uploadId"    text primary key,
    "mediaId"     text,
    "status"      text,
    "createdAt"   timestamptz,
    "timeout"     integer,
    "corsOrigin"  text,
    "state"       jsonb not null,
    "fetchedAt"   timestamptz not null
);

-- The inbox whose tables these are. They hold one account: the rows of another would be taken for deleted.
create table if not exists fastpix.inbox (source text primary key);

-- What was here before, made by somebody else.
do $$
declare
    v_there record;
    v_other text;
begin
    for v_there in
        select c.relname as name,
               case when c.relkind not in ('r', 'p', 'v') or (c.relkind = 'v') <> (c.relname = 'webhook_events')
                    then case c.relkind when 'r' then 'a table' when 'p' then 'a table' when 'v' then 'a view' else 'something else' end end as kind,
               (select string_agg(e.column_name, ', ') from (values {columns}) e(table_name, column_name)
                 where e.table_name = c.relname
                   and not exists (select from pg_catalog.pg_attribute a
                                    where a.attrelid = c.oid and a.attname = e.column_name and not a.attisdropped)) as lacking
          from pg_catalog.pg_class c
         where c.relnamespace = 'fastpix'::regnamespace and c.relname in ('media', 'live_streams', 'uploads', 'inbox', 'webhook_events')
         order by c.relname loop
        if v_there.kind is not null or v_there.lacking is not null then
            raise exception using errcode = 'RD002', message = format(
                'fastpix.%s is there already and is not what redrive makes: it %s; rename it, then run this again',
                v_there.name, coalesce('is ' || v_there.kind, 'has no column ' || v_there.lacking));
        end if;
    end loop;
    select i.source into v_other from fastpix.inbox i where i.source <> {source} order by 1 limit 1;
    if found then
        raise exception using errcode = 'RD002', message = format(
            'the tables of schema fastpix are those of inbox %s, and inbox %s cannot share them: they hold one FastPix account; '
            'give each inbox of FastPix a database of its own; where the inbox was only renamed: '
            'delete from fastpix.inbox where source <> %L, then run this again',
            v_other, {source}, {source});
    end if;
end
$$;
insert into fastpix.inbox (source) values ({source}) on conflict do nothing;

create index if not exists "media_createdAt" on fastpix.media ("createdAt");
create index if not exists "media_unfinished" on fastpix.media ("id") where lower("status") not in ('ready', 'failed');
create index if not exists "live_streams_createdAt" on fastpix.live_streams ("createdAt");
create index if not exists "uploads_unfinished" on fastpix.uploads ("uploadId") where "status" not in ('media_created', 'ended');

-- Looked at first: replacing a view by the same one would still write to the catalogue.
do $$
begin
    if obj_description(to_regclass('fastpix.webhook_events'), 'pg_class') is distinct from {comment} then
        create or replace view fastpix.webhook_events as
        select e.id,
               e.event_id    as "eventId",
               e.type        as "type",
               e.received_at as "receivedAt",
               e.status      as "processStatus",
               e.last_error  as "lastError",
               e.payload,
               e.resource    as "resource",
               e.attempts    as "attempts",
               e.origin      as "origin",
               e.source      as "source"
          from redrive.webhook_event e
         where e.source in (select i.source from fastpix.inbox i);
        execute format('comment on view fastpix.webhook_events is %L', {comment});
    end if;
end
$$;

-- Which part of redrive needs which rights here: granted with the part, and taken with it.
insert into redrive.api_table as a (schema_name, table_name, part, rights)
select 'fastpix', t.name, p.part,
       case when p.part = 'work' and t.written then array['select', 'insert', 'update', 'delete'] else array['select'] end
  from (values ('media', true), ('live_streams', true), ('uploads', true), ('inbox', false), ('webhook_events', false)) t(name, written)
 cross join (values ('work'), ('operate'), ('read')) p(part)
on conflict (schema_name, table_name, part) do update set rights = excluded.rights where a.rights is distinct from excluded.rights;
