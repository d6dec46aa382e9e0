"""The webhook inbox: verify, record and enqueue, then re-fetch, replay and reconcile."""
