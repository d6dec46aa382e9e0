// What the messages of each queue are for: yours to write. `redrive supabase init` wrote this once, and leaves
// it alone. A handler that throws has failed: the message comes again, after the queue's backoff, until its
// attempts are spent. After a crash it runs again: what it does must bear that. `job.signal` says when to stop.
import type { Handlers } from "./declared.ts";

export const handlers: Handlers = {
{handlers}};
