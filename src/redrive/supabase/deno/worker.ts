// redrive-worker: POST {"queue": NAME} works a queue for a while, answers {"processed", "failed", "skipped"}.
// `redrive supabase init` writes this file anew; what your jobs do stands in handlers.ts, which is yours.
import { BUDGET_SECONDS, type Message, type Queue, queues } from "./declared.ts";
import { work } from "./delivery.ts";
import { handlers } from "./handlers.ts";
import { mayCall, rpc } from "./supabase.ts";
import { outliveStrays } from "./thrown.ts";

/** Works the queue until it is empty, or the time for it over. */
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

outliveStrays();
Deno.serve(async (request) => {
  const answer = (status: number, text: string) => new Response(`${text}\n`, { status });
  if (!(await mayCall(request.headers))) return answer(401, "this takes a secret");
  if (request.method !== "POST") return answer(405, "this takes a POST");
  const queue = (await request.json().catch(() => null))?.queue;
  const isKnown = typeof queue === "string" && Object.hasOwn(queues, queue);
  if (!isKnown) return answer(404, `name one of: ${Object.keys(queues).join(", ")}`);
  if (!Object.hasOwn(handlers, queue)) return answer(501, `handlers.ts has none for queue ${queue}`);
  const failed = (error: Error) => (console.error(error), answer(503, error.message));
  return await drain(queue as Queue).then((counts) => Response.json(counts), failed);
});
