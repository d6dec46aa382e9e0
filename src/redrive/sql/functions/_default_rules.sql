-- _default_rules: the rules that are on from the start. the words in braces are those of redrive._worded.
create function redrive._default_rules() returns setof redrive._rule
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select r.name, r.gauge, r.operator, r.threshold, r.clear_at, r.for_sec, 14400::numeric, r.severity, null::text, true, true, r.summary, r.command
      from (values
        ('dead_letters', 'dead', '>', 0, null, 0, 'warning',
         'Queue {subject} has {value} dead letter{s}: nobody runs these jobs again.', 'redrive dlq list {subject}'),
        ('oldest_ready', 'oldest_ready_age_sec', '>', 900, 600, 0, 'warning',
         'The oldest job of queue {subject} that could run has been waiting for {age} ({ready} ready, {workers} workers{paused}).', 'redrive status'),
        ('attempts_nearly_spent', 'attempts_left', '<=', 1, null, 0, 'warning',
         'A job of queue {subject} has failed {failed} times of {max_attempts}: {value} attempt{s} left before it is a dead letter.',
         'redrive status'),
        ('no_worker', 'unattended', '>', 0, null, 60, 'critical',
         'Queue {subject} has {value} job{s} ready and no worker: {last_seen}.', 'redrive worker --app MODULE:ATTR --queue {subject}'),
        ('failure_rate', 'failure_rate', '>', 0.5, 0.3, 300, 'warning',
         '{percent} of the attempts of queue {subject} fail.', 'redrive status'),
        ('webhook_refused', 'refused_lately', '>=', 5, null, 0, 'warning',
         '{value} signed webhook{s} of source {subject} refused in the last 15 minutes: the secret may be wrong, or a clock.',
         'redrive inbox quarantine {subject}'),
        ('events_waiting', 'oldest_event_age_sec', '>', 900, 600, 0, 'critical',
         'A webhook event of source {subject} that was recorded and could be handled has been waiting for {age}.', 'redrive inbox list {subject}'),
        ('schedule_missed', 'schedule_lag_sec', '>', 120, null, 0, 'critical',
         'Schedule {subject} was due {age} ago and has not been sent: {why}.', 'redrive schedule list'),
        ('lease_stuck', 'lease_stuck_sec', '>', 60, null, 0, 'warning',
         'Lease {subject} is held by {holder}, {why}.', 'redrive lease list'),
        ('archive_over_limit', 'retention_overdue_sec', '>', 86400, 3600, 0, 'warning',
         'What retention keeps of {subject} is over its limit for {age}: nothing prunes it, or not fast enough.', 'redrive prune --dry-run'),
        ('xmin_held', 'xmin_held_sec', '>', 1800, null, 0, 'warning',
         'Dead rows cannot be cleaned up for {age}: {what}.', 'redrive doctor'),
        ('parked', 'parked', '>', 0, null, 0, 'critical',
         'Queue {subject} has {value} message{s} over budget and no dead-letter queue to go to.', 'redrive doctor'),
        ('queue_unreadable', 'unreadable', '>', 0, null, 120, 'critical',
         'Queue {subject} cannot be read: {problem}', 'redrive doctor'),
        ('gauges_unread', 'gauges_unread', '>', 0, null, 120, 'warning',
         '{value} reading{s} could not be had, so that nobody knows whether all is well there: {what}', 'redrive alerts list'),
        ('cron_failing', 'cron_failed', '>', 0, null, 0, 'warning',
         'The last run of pg_cron job {subject} failed{why}', 'redrive doctor'),
        ('tick_failing', 'tick_failed', '>', 0, null, 0, 'critical',
         'Job redrive drain {subject}: pg_cron reports success, but its call failed {value} time{s} in a row: {why}.', '{look}'),
        ('net_failing', 'net_failed', '>=', 3, null, 0, 'warning',
         '{value} HTTP call{s} of pg_net failed in the last 15 minutes: {what}.', 'redrive doctor'),
        ('alerts_undelivered', 'sink_trouble_sec', '>', 300, null, 0, 'critical',
         'Alerts do not reach sink {subject}: {why}.', '{look}'),
        ('notify_queue', 'notify_queue_usage', '>', 0.5, 0.4, 0, 'warning',
         'The queue of NOTIFY is {percent} full; when it is full, commits that notify fail. A session that listens and is in a transaction holds it.',
         'redrive doctor')
      ) r(name, gauge, operator, threshold, clear_at, for_sec, severity, summary, command)
$$;
revoke all on function redrive._default_rules() from public;
