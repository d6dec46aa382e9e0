// Whether a request is signed by one of its inbox's secrets. `redrive supabase init` writes this file anew.
import { type Bytes, hex, hmac, keyOf, Refused, same } from "./bytes.ts";
import type { Inbox } from "./declared.ts";

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
export async function verified(
  inbox: Inbox,
  headers: Headers,
  raw: Bytes,
): Promise<[string, string, Bytes]> {
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
