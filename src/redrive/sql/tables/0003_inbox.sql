-- The webhook inbox: what arrived, what was refused, and which answer of a provider's API was written last.

-- inbox: events were received into this queue: whatever ends a message there looks for its event. large: one of them was
-- over 1 MB: claim looks for those. Both are set by the first such event, so that no other queue pays for either.
alter table redrive.queue
    add column inbox boolean not null default false,
    add column large boolean not null default false;

-- The record: one row an event. status is moved by whatever ends the event's message. attempts and last_error are those of
-- the message that msg_id names; generation counts how often the event was sent again. payload is null where jsonb cannot
-- hold the body: raw is the body as it was received, headers are the request's. origin: who brought the event.
-- event_id has the C collation: ids are compared, never read in a dictionary's order, and one is found by the beginning.
create table redrive.webhook_event (
    id          uuid primary key default gen_random_uuid(),
    source      text collate "C" not null,
    event_id    text collate "C" not null,
    type        text not null,
    resource    text collate "C",
    received_at timestamptz not null,
    status      text collate "C" not null default 'received' check (status in ('received', 'processed', 'failed', 'ignored')),
    attempts    integer not null default 0,
    last_error  text,
    payload     jsonb,
    raw         bytea not null,
    headers     jsonb,
    msg_id      bigint not null,
    queue       text not null,
    generation  integer not null default 0,
    origin      text not null default 'webhook' check (origin in ('webhook', 'reconcile')),
    settled_at  timestamptz,
    unique (source, event_id)
);
-- One index for every list and every count: a page without a status is merged from the four. The source stands second: an
-- index that begins with it would, for a source that came since the last analyze, look as good for finding an id as its own.
create index webhook_event_status on redrive.webhook_event (status, source, received_at, id);
create index webhook_event_resource on redrive.webhook_event (source, resource, received_at) where resource is not null;

-- The quarantine: requests that were refused, and events whose id came again with another body. The newest 200 a source.
create table redrive.webhook_refused (
    id       bigint generated always as identity primary key,
    source   text collate "C" not null,
    at       timestamptz not null,
    reason   text not null,
    detail   text,
    headers  jsonb,
    body     bytea,
    size     bigint,
    event_id text
);
create index webhook_refused_source on redrive.webhook_refused (source, id);

-- How many were refused, by reason and day (of UTC).
create table redrive.webhook_count (
    source  text collate "C" not null,
    reason  text collate "C" not null,
    day     date not null,
    total   bigint not null,
    last_at timestamptz not null,
    primary key (source, reason, day)
);

-- When the answer that was written last was asked for: an older answer that arrives later is not written.
create table redrive.fetched (
    source   text collate "C" not null,
    resource text collate "C" not null,
    at       timestamptz not null,
    primary key (source, resource)
);
