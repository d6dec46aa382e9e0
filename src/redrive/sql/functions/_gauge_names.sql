-- _gauge_names: what a rule may look at, what its subject is, and the family it is read with (redrive._read_<family>);
-- without one where it is about the others (redrive._readings).
create function redrive._gauge_names() returns table (gauge text, subject text, family text)
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select unnest(string_to_array('ready delayed in_flight dead parked oldest_ready_age_sec max_attempt attempts_left unattended workers inflow_per_sec '
                                  'outflow_per_sec failure_rate drain_sec archive_rows archive_bytes dead_tuples last_done_age_sec unreadable', ' ')),
           'queue', 'queues'
    union all
    values ('refused_lately', 'source', 'sources'), ('oldest_event_age_sec', 'source', 'sources'), ('schedule_lag_sec', 'schedule', 'schedules'),
           ('lease_stuck_sec', 'lease', 'leases'), ('retention_overdue_sec', 'what is kept', 'retention'), ('xmin_held_sec', '', 'holders'),
           ('notify_queue_usage', '', 'server'), ('cron_failed', 'cron job', 'cron'), ('net_failed', '', 'net'), ('tick_failed', 'queue', 'ticks'),
           ('sink_trouble_sec', 'sink', 'sinks'), ('gauges_unread', '', null)
$$;
revoke all on function redrive._gauge_names() from public;
