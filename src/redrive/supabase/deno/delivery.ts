// One delivery of a message, from its reading to its end. `redrive supabase init` writes this file anew.
import { type Message, type Queue, queues } from "./declared.ts";
import { handlers } from "./handlers.ts";
import { rpc } from "./supabase.ts";
import { logged, type Told, told } from "./thrown.ts";

/** Runs the handler and reports how that ended; throws where no report arrives: the message comes again. */
export async function work(queue: Queue, message: Message): Promise<"processed" | "failed" | "skipped"> {
  const { vt: p_vt } = queues[queue];
  const delivery = { p_queue: queue, p_msg_ids: [message.msg_id], p_read_cts: [message.read_ct] };
  // A message without a key needs none: read_ct tells its deliveries apart.
  const named = { p_key: message.key, p_owner: crypto.randomUUID(), p_queue: queue };
  const key = message.key === null ? null : named;
  const claim = async () => key ? await rpc("begin_job", { ...key, p_lease_seconds: p_vt }) : "claimed";
  const every = p_vt * 1000 / 3;
  const stop = new AbortController();
  const rest = heartbeat(every, async () => {
    const [owned] = await rpc<number[]>("extend", { ...delivery, p_vt }, Math.min(10_000, 2 * every));
    if (owned) await claim();
    else stop.abort(new Error("another delivery has this message"));
  });
  let state: unknown, failure: Told | undefined;
  try {
    state = await claim();
    if (state === "claimed") await attempt(queue, message, stop);
  } catch (thrown) {
    failure = told(thrown);
  } finally {
    await rest();
  }
  const until = Date.now() + Math.min(5_000, p_vt * 500); // of the lease, two thirds are left at least
  const report = (name: string, values: Record<string, unknown>) => insist(until, name, values);
  if (failure !== undefined) { // the key is free for the next attempt, and the failure on record
    if (key) await report("abandon_job", key);
    const { type, text, trace } = failure;
    const error = { p_error_types: [type], p_errors: [text], p_tracebacks: [trace] };
    await report("settle", { ...delivery, ...error, p_outcomes: ["retry"] });
    return "failed";
  } else if (state === "busy") { // another delivery works on this key: again in a moment, free of charge
    await report("settle", { ...delivery, p_outcomes: ["snooze"], p_delays: [5] });
    return "skipped";
  }
  if (state === "claimed" && key) await report("finish_job", key);
  await report("queue_archive", { p_queue_name: queue, p_msg_id: message.msg_id, p_read_ct: message.read_ct });
  return state === "claimed" ? "processed" : "skipped";
}

/** Ends with the handler, or before it: when its time is over, and when `stop` says so. */
async function attempt(queue: Queue, message: Message, stop: AbortController): Promise<void> {
  const { signal } = stop;
  signal.throwIfAborted();
  const over = new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
  over.catch(() => {}); // also where nobody waits for it any more
  const late = () => stop.abort(new DOMException("the handler took too long", "TimeoutError"));
  const timer = setTimeout(late, queues[queue].timeout * 1000);
  const { msg_id: id, attempt, key } = message;
  const run = async () => await handlers[queue](message.message, { id, queue, attempt, key, signal });
  try {
    await Promise.race([run(), over]);
  } finally {
    clearTimeout(timer);
  }
}

/** Beats every so many milliseconds, one beat at a time, until the answer is called; that waits for the last. */
function heartbeat(every: number, beat: () => Promise<unknown>): () => Promise<void> {
  let last: Promise<void> | undefined;
  const log = (error: unknown) => console.error(logged(error));
  const one = () => beat().then(() => {}, log).finally(() => last = undefined);
  const timer = setInterval(() => last ??= one(), every);
  return async () => {
    clearInterval(timer);
    await last;
  };
}

/** The call's answer; made again until then where there is none: made twice, it does what it does once. */
async function insist(until: number, name: string, values: Record<string, unknown>): Promise<unknown> {
  for (let wait = 100;; wait *= 3) {
    try {
      return await rpc(name, values);
    } catch (error) {
      if (Date.now() + wait > until) throw error;
      console.error(logged(error));
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}
