-- The tables of the APIs behind inboxes, which are no part of this schema: who makes them says here which part needs which
-- rights on them, so that migrate and grant give these, and a revoke takes them.
create table redrive.api_table (
    schema_name text not null,
    table_name  text not null,
    part        text not null check (part in ('send', 'work', 'operate', 'read')),
    rights      text[] not null check (rights <@ array['select', 'insert', 'update', 'delete']),
    primary key (schema_name, table_name, part)
);
