// redrive-receiver: POST /redrive-receiver/SOURCE verifies the bytes as they came, records the event and its
// job in one call, and only then answers 200. `redrive supabase init` writes this file anew.
import { bodyOf, type Bytes, hex, hmac, keyOf, Refused, same } from "./bytes.ts";
import { type Inbox, inboxes } from "./declared.ts";
import { at, documentOf, greeting, identity, kept } from "./identity.ts";
import { rpc } from "./supabase.ts";

/** The keys that count now. */
function keysOf(inbox: Inbox): Bytes[] {
  const live = inbox.secrets.filter(({ until }) => until === undefined || Date.now() < until);
  const set = live.filter(({ variable }) => Deno.env.get(variable));
  if (set.length === 0) throw new Error(`not set: ${live.map((each) => each.variable).join(", ")}`);
  return set.map(({ variable }) => {
    const key = keyOf(Deno.env.get(variable)!, inbox.key);
    if (key === undefined) throw new Error(`${variable} cannot be a signing secret of this provider`);
    return key;
  });
}

/** The id that stands beside the signature, the time, and the key that fits; `Refused` where none does. */
async function verified(inbox: Inbox, headers: Headers, raw: Bytes): Promise<[string, string, Bytes]> {
  const sent = (name?: string) => {
    const value = (name && headers.get(name)) || "";
    if (value.length <= 8_192 && !/, |[^\t\x20-\x7e]/.test(value)) return value;
    throw new Refused(401, "malformed"); // sent twice, or with characters outside ASCII
  };
  const family = inbox.families.find((each) => headers.has(each.signature)) ?? inbox.families.at(-1)!;
  const [signature, id, clock] = [sent(family.signature), sent(family.id), sent(family.timestamp)];
  const lacks = !signature || (family.timestamp && !clock) || (inbox.signed.includes("{id}") && !id);
  if (lacks) throw new Refused(401, "no_header");
  const { separator, time, prefix } = inbox.layout;
  const items = separator === undefined ? [signature] : signature.split(separator);
  const after = (s: string) => items.flatMap((item) => item.startsWith(s) ? [item.slice(s.length)] : []);
  const times = time === undefined ? [clock] : after(time);
  const timed = times.every((each) => /^[0-9]{1,12}$/.test(each)) || (time ?? family.timestamp) === undefined;
  if (times.length !== 1 || !timed) throw new Refused(401, "malformed");
  const values: Record<string, string> = { id, timestamp: times[0] };
  const filled = (part: string) => part.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const parts = inbox.signed.split("{body}").map(filled);
  const message = new Uint8Array(await new Blob([parts[0], raw, parts[1]]).arrayBuffer());
  let fits: Bytes | undefined;
  for (const key of keysOf(inbox)) {
    const digest = await hmac(inbox.algorithm, key, message);
    const expected = inbox.encoding === "hex" ? hex(digest) : btoa(String.fromCharCode(...digest));
    for (const offered of after(prefix)) if (same(expected, offered)) fits ??= key;
  }
  if (fits === undefined) throw new Refused(401, "mismatch");
  return [id, times[0], fits];
}

async function receive(request: Request): Promise<Response> {
  const source = new URL(request.url).pathname.split("/").at(-1) ?? "";
  if (!Object.hasOwn(inboxes, source)) throw new Refused(404, "there is no such inbox");
  if (request.method !== "POST") throw new Refused(405, "this takes a POST");
  const [inbox, headers] = [inboxes[source], request.headers];
  const raw = await bodyOf(request, inbox.limit);
  const [id, time, key] = await verified(inbox, headers, raw);
  const document = documentOf(headers, raw);
  const stamp = inbox.bodyTime ? at(document, `/${inbox.bodyTime}`) : Number(time) * 1000;
  const age = Number.isSafeInteger(stamp) ? Math.abs(Date.now() - Number(stamp)) / 1000 : Infinity;
  if (inbox.tolerance !== undefined && age > inbox.tolerance) throw new Refused(401, "stale");
  const greeted = await greeting(inbox, headers, document, key);
  if (greeted !== undefined) return greeted;
  const event = await identity(inbox, headers, raw, document, id);
  const body = { p_payload: null, p_raw: `\\x${hex(raw)}` }; // the database parses it: no digit is lost
  const { queue: p_queue, volatile: p_volatile } = inbox;
  const told = { p_source: source, p_queue, p_volatile, p_headers: kept(inbox, headers), ...event, ...body };
  const within = 2_000 + raw.length / 1_000; // milliseconds: some senders wait for three seconds
  const [got] = await rpc<Record<string, boolean>[]>("receive_event", told, within);
  return new Response(got.conflict ? "conflict\n" : got.duplicate ? "duplicate\n" : "ok\n");
}

Deno.serve((request) =>
  receive(request).catch((error) => {
    const status = error instanceof Refused ? error.status : 503;
    console.error(new URL(request.url).pathname, status, error.message);
    const text = status === 503 ? "try again later" : error.message;
    return new Response(`${text}\n`, { status, headers: status === 503 ? { "retry-after": "5" } : {} });
  })
);
