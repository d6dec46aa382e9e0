// Who a delivery is, by the places where its provider says so. `redrive supabase init` writes this file anew.
import { type Bytes, hex, hmac, sha256, utf8 } from "./bytes.ts";
import type { Inbox, Place } from "./declared.ts";

/** Not kept of a request's headers, as its signature is not. */
const CREDENTIALS = /^(authorization|proxy-authorization|cookie|apikey|x-api-key|api-key|x-gitlab-token)$/;

/** What stands at a JSON pointer. */
export function at(document: unknown, pointer: string): unknown {
  const steps = pointer.slice(1).split("/").map((each) => each.replaceAll("~1", "/").replaceAll("~0", "~"));
  return steps.reduce((value: unknown, step) => {
    if (Array.isArray(value)) return /^[0-9]{1,9}$/.test(step) ? value[Number(step)] : undefined;
    const known = typeof value === "object" && value !== null && Object.hasOwn(value, step);
    return known ? (value as Record<string, unknown>)[step] : undefined;
  }, document);
}

/** A text of 1 to 255 characters that Postgres can hold, else undefined. */
function storable(value: unknown): string | undefined {
  if (typeof value !== "string" || value.length > 510 || !value.isWellFormed()) return undefined;
  const length = [...value].length;
  return length > 0 && length <= 255 && !value.includes("\0") ? value : undefined;
}

/** The arguments of receive_event that say which event it is; `signed` is the scheme's own id header. */
export async function identity(inbox: Inbox, headers: Headers, raw: Bytes, found: unknown, signed: string) {
  const valueAt = (place: string) => {
    if (place.startsWith("/")) return at(found, place);
    const header = place === "{id}" ? signed : headers.get(place);
    return header !== null && /^[\x20-\x7e]+$/.test(header) ? header : undefined;
  };
  const joined = async ({ parts, extra, hashed }: Exclude<Place, string>) => {
    const values = [...parts, ...extra].map(valueAt);
    const texts = values.map((each) => Number.isSafeInteger(each) ? each : storable(each));
    if (texts.slice(0, parts.length).includes(undefined)) return undefined;
    const there = texts.filter((each) => each !== undefined);
    return hashed ? await sha256(utf8(asPython(there))) : storable(there.join(":"));
  };
  const first = async (places: Place[]): Promise<[string, Place] | []> => {
    for (const place of places) {
      const value = typeof place === "string" ? storable(valueAt(place)) : await joined(place);
      if (value !== undefined) return [value, place];
    }
    return [];
  };
  const [id, place] = await first(inbox.id);
  const [[type], [resource]] = [await first(inbox.type), await first(inbox.resource)];
  return {
    p_event_id: id ?? (inbox.bodyHash ? `sha256:${await sha256(raw)}` : `received:${crypto.randomUUID()}`),
    p_type: type ?? "unknown",
    p_resource: resource ?? null,
    p_derived: inbox.derived && place !== undefined && place !== "{id}",
  };
}

/** The list as Python's json writes it, so that its hash is the one that `redrive serve` makes. */
function asPython(list: unknown[]): string {
  const escaped = (each: string) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return `[${list.map((each) => JSON.stringify(each).replace(/[\x7f-\uffff]/g, escaped)).join(", ")}]`;
}

/** The answer to a verified request that only asks who is there. */
export async function greeting(inbox: Inbox, headers: Headers, document: unknown, key: Bytes) {
  const [type, challenge] = [at(document, "/type"), at(document, "/challenge")];
  const [event, plainToken] = [at(document, "/event"), at(document, "/payload/plainToken")];
  if (inbox.greets === "github" && headers.get("x-github-event") === "ping") return new Response("");
  if (inbox.greets === "slack" && type === "url_verification" && typeof challenge === "string") {
    return Response.json({ challenge });
  }
  if (inbox.greets === "zoom" && event === "endpoint.url_validation" && typeof plainToken === "string") {
    return Response.json({ plainToken, encryptedToken: hex(await hmac("SHA-256", key, utf8(plainToken))) });
  }
}

/** The headers that are kept beside the event: no credential, no signature. */
export function kept(inbox: Inbox, headers: Headers): Record<string, string> {
  const signatures = inbox.families.map((each) => each.signature.toLowerCase());
  const found = [...headers].filter(([name]) => !CREDENTIALS.test(name) && !signatures.includes(name));
  return Object.fromEntries(found.slice(0, 100).map(([name, value]) => [name, value.slice(0, 2_048)]));
}
