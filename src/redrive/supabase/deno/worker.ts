// redrive-worker: POST {"queue": NAME} works a queue for a while, answers {"processed", "failed", "skipped"}.
// `redrive supabase init` writes this file anew; what your jobs do stands in handlers.ts, which is yours.
import { BUDGET_SECONDS, type Message, type Queue, queues } from "./declared.ts";
import { handlers } from "./handlers.ts";
import { mayCall, rpc } from "./supabase.ts";

async function work(queue: Queue, message: Message): Promise<"processed" | "failed" | "skipped"> {
  const { vt: p_vt, timeout } = queues[queue];
  const delivery = { p_queue: queue, p_msg_ids: [message.msg_id], p_read_cts: [message.read_ct] };
  const key = { p_key: message.key ?? `msg:${message.msg_id}`, p_owner: crypto.randomUUID(), p_queue: queue };
  const begin = () => rpc<"claimed" | "busy" | "done">("begin_job", { ...key, p_lease_seconds: p_vt });
  const lost = new AbortController();
  const hold = async ([owned]: number[]) =>
    await (owned ? begin() : lost.abort(new Error("another delivery has this message")));
  const extend = () => rpc<number[]>("extend", { ...delivery, p_vt }).then(hold).catch(console.error);
  let state: string | undefined, failure: Error | undefined, beat: Promise<unknown> = Promise.resolve();
  const beating = setInterval(() => beat = extend(), p_vt * 1000 / 3);
  try {
    state = await begin();
    if (state === "claimed") {
      const signal = AbortSignal.any([lost.signal, AbortSignal.timeout(timeout * 1000)]);
      const over = new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
      const job = { id: message.msg_id, queue, attempt: message.attempt, key: key.p_key, signal };
      await Promise.race([handlers[queue](message.message, job), over]);
    }
  } catch (thrown) {
    failure = thrown instanceof Error ? thrown : new Error(String(thrown));
  }
  clearInterval(beating);
  await beat;
  if (failure !== undefined) { // the key is free for the next attempt, and the failure on record
    const [type, text, trace] = [failure.name, failure.message, failure.stack ?? ""].map(storable);
    await rpc("abandon_job", key);
    const error = { p_error_types: [type], p_errors: [text], p_tracebacks: [trace] };
    await rpc("settle", { ...delivery, ...error, p_outcomes: ["retry"] });
    return "failed";
  } else if (state === "busy") { // another delivery works on this key: again in a moment, free of charge
    await rpc("settle", { ...delivery, p_outcomes: ["snooze"], p_delays: [5] });
    return "skipped";
  }
  if (state === "claimed") await rpc("finish_job", key);
  await rpc("queue_archive", { p_queue_name: queue, p_msg_id: message.msg_id, p_read_ct: message.read_ct });
  return state === "claimed" ? "processed" : "skipped";
}
const storable = (text: string) => text.slice(0, 20_000).replaceAll("\0", "").toWellFormed();

async function drain(queue: Queue) {
  const counts = { processed: 0, failed: 0, skipped: 0 };
  const lease = { p_name: `redrive.tick:${queue}`, p_seconds: 30 };
  const p_token = await rpc<number | null>("acquire_lease", lease);
  if (p_token === null) return { ...counts, reason: "another tick works this queue" };
  let until = Date.now() + BUDGET_SECONDS * 1000;
  const renew = async () => (await rpc("renew_lease", { ...lease, p_token })) || (until = 0);
  const renewing = setInterval(() => renew().catch(console.error), 10_000);
  const { vt: p_vt, attempts: p_max_read_ct, lanes } = queues[queue];
  const read = { p_queue_name: queue, p_vt, p_qty: 1, p_max_read_ct };
  const lane = async () => { // reads one at a time: a function that is killed charges only what it ran
    while (Date.now() < until) {
      const [message] = await rpc<Message[]>("read_with_dlq", read);
      if (message === undefined) return;
      counts[await work(queue, message)]++;
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: lanes }, lane));
  clearInterval(renewing);
  await rpc("release_lease", { p_name: lease.p_name, p_token }).catch(console.error);
  for (const end of ends) if (end.status === "rejected") throw end.reason;
  return counts;
}

Deno.serve(async (request) => {
  const answer = (status: number, text: string) => new Response(`${text}\n`, { status });
  if (!(await mayCall(request.headers))) return answer(401, "this takes a secret");
  if (request.method !== "POST") return answer(405, "this takes a POST");
  const queue = (await request.json().catch(() => null))?.queue ?? "";
  if (!Object.hasOwn(queues, queue)) return answer(404, `name one of: ${Object.keys(queues).join(", ")}`);
  if (!Object.hasOwn(handlers, queue)) return answer(501, `handlers.ts has none for queue ${queue}`);
  const failed = (error: Error) => (console.error(error), answer(503, error.message));
  return await drain(queue).then((counts) => Response.json(counts), failed);
});
