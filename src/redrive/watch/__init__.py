"""What watches over the queues: health, alerts, schedules, retention, metrics, the doctor."""
