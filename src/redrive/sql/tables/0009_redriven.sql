-- Which message a dead letter became when it was sent again: how a message's life is followed through its redrives.
-- msg_id is the new message's id, from_msg that of the message that had died, dead_id that of its letter.
create table redrive.redriven (
    queue    text not null,
    msg_id   bigint not null,
    from_msg bigint,
    dead_id  bigint not null,
    at       timestamptz not null,
    primary key (queue, msg_id)
);
create index redriven_from on redrive.redriven (queue, from_msg);
create index redriven_at on redrive.redriven (at);

-- Since when the queue is paused.
alter table redrive.queue add column paused_at timestamptz;
