// Supabase's keys: who may call a function here, and the database asked through PostgREST, by fetch alone.
// `redrive supabase init` writes this file anew.
import { API_SCHEMA } from "./declared.ts";

/** The values of a JSON object of keys by name, whole; none where it is no such object. */
function secretKeys(text: string): string[] {
  try {
    const values: unknown[] = Object.values(JSON.parse(text || "{}") ?? {});
    return values.flatMap((each) => typeof each === "string" && each.startsWith("sb_secret_") ? [each] : []);
  } catch {
    console.error("SUPABASE_SECRET_KEYS is no JSON object of keys by name");
    return [];
  }
}

const KEYS: string[] = [ // of the new kind, and the legacy JWT
  ...secretKeys(Deno.env.get("SUPABASE_SECRET_KEYS") ?? ""),
  ...(Deno.env.get("SUPABASE_SERVICE_ROLE_KEY")?.match(/\S+/g) ?? []),
];
const TICKS = Deno.env.get("REDRIVE_TICK_SECRET")?.split(",").filter((each) => each !== "") ?? [];

/** A call that was answered with an error. */
export class Answered extends Error {
  constructor(name: string, readonly status: number, text: string) {
    super(`${name} was answered with ${status}: ${text.slice(0, 500)}`);
  }
}

/** The answer of a function of the database, to `values` or the text of their JSON object; throws where there
 * is none within `within` milliseconds. */
export async function rpc<T>(name: string, values: object | string, within = 10_000): Promise<T> {
  const [apikey = ""] = KEYS;
  const headers = new Headers({ "content-type": "application/json", "content-profile": API_SCHEMA, apikey });
  if (!apikey.startsWith("sb_")) headers.set("authorization", `Bearer ${apikey}`); // no other kind is a JWT
  const answer = await fetch(`${Deno.env.get("SUPABASE_URL")}/rest/v1/rpc/${name}`, {
    method: "POST",
    headers,
    body: typeof values === "string" ? values : JSON.stringify(values),
    signal: AbortSignal.timeout(within),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Answered(name, answer.status, text);
  return JSON.parse(text || "null");
}

/** Whether a request has the tick's secret, or one of Supabase's, as `apikey` or as a bearer token. */
export async function mayCall(headers: Headers): Promise<boolean> {
  const offered = [headers.get("apikey") ?? "", headers.get("authorization")?.replace(/^Bearer /i, "") ?? ""];
  const digest = async (text: string) =>
    new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  const known = [...TICKS, ...KEYS];
  const [ours, theirs] = await Promise.all([known, offered].map((each) => Promise.all(each.map(digest))));
  // Each with each, and to the end: how long it takes tells nothing of how alike they are.
  const difference = (a: Uint8Array, b: Uint8Array) => a.reduce((sum, byte, n) => sum | (byte ^ b[n]), 0);
  return ours.flatMap((a) => theirs.map((b) => difference(a, b))).includes(0);
}
