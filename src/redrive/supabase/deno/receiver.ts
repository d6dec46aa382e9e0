// redrive-receiver: POST /redrive-receiver/SOURCE verifies the bytes as they came, records the event and its
// job in one call, and only then answers 200. `redrive supabase init` writes this file anew.
import { bodyOf, hex, Refused } from "./bytes.ts";
import { inboxes } from "./declared.ts";
import { documentOf, jsonOf } from "./document.ts";
import { at, greeting, identity, kept } from "./identity.ts";
import { packing, unpacked } from "./packing.ts";
import { verified } from "./signature.ts";
import { rpc, Answered } from "./supabase.ts";

async function receive(request: Request): Promise<Response> {
  const source = new URL(request.url).pathname.split("/").at(-1) ?? "";
  const inbox = inboxes.get(source);
  if (inbox === undefined) throw new Refused(404, "there is no such inbox");
  if (request.method !== "POST") throw new Refused(405, "this takes a POST");
  const headers = request.headers;
  const raw = await bodyOf(request, inbox.limit);
  const packed = packing(headers, raw, inbox.limit);
  const [id, time, key] = await verified(inbox, headers, raw);
  const body = await unpacked(raw, packed, inbox.limit);
  const document = documentOf(headers, body);
  const inBody = body === raw ? document : undefined; // the time is looked for in what was signed
  const stamp = inbox.bodyTime ? at(inBody, `/${inbox.bodyTime}`) : Number(time) * 1000;
  const age = Number.isSafeInteger(stamp) ? Math.abs(Date.now() - Number(stamp)) / 1000 : Infinity;
  if (inbox.tolerance !== undefined && age > inbox.tolerance) throw new Refused(401, "stale");
  const greeted = await greeting(inbox, headers, document, key);
  if (greeted !== undefined) return greeted;
  const event = await identity(inbox, headers, body, document, id);
  const { queue: p_queue, volatile: p_volatile } = inbox;
  const told = { p_source: source, p_queue, p_volatile, p_headers: kept(inbox, headers), ...event };
  const [got] = await record({ ...told, p_raw: `\\x${hex(raw)}` }, body === raw ? undefined : jsonOf(body));
  return new Response(got.conflict ? "conflict\n" : got.duplicate ? "duplicate\n" : "ok\n");
}

/** Without a payload, the database reads it from p_raw; either way as JSON's text, so that no digit is lost. */
async function record(told: { p_raw: string }, payload?: string): Promise<Record<string, boolean>[]> {
  const rest = JSON.stringify(told).slice(1);
  const within = 2_000 + rest.length / 2_000; // milliseconds: some senders wait for three seconds
  const call = (text: string): Promise<Record<string, boolean>[]> =>
    rpc("receive_event", `{"p_payload":${text},${rest}`, within);
  if (payload === undefined) return await call("null");
  return await call(payload).catch((error) => { // it may be none that Postgres can hold
    if (error instanceof Answered && error.status < 500) return call("null");
    throw error;
  });
}

Deno.serve((request) =>
  receive(request).catch((error) => {
    const status = error instanceof Refused ? error.status : 503;
    console.error(new URL(request.url).pathname, status, error.message);
    const text = status === 503 ? "try again later" : error.message;
    return new Response(`${text}\n`, { status, headers: status === 503 ? { "retry-after": "5" } : {} });
  })
);
