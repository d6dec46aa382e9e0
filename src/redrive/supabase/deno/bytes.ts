// Bytes: bodies, keys and digests. `redrive supabase init` writes this file anew.
export type Bytes = Uint8Array<ArrayBuffer>;
export const utf8 = (text: string): Bytes => new TextEncoder().encode(text);
const DIGITS = utf8("0123456789abcdef");

/** A request that is answered with `status` and its reason. */
export class Refused extends Error {
  constructor(readonly status: number, reason: string) {
    super(reason);
  }
}

/** The body, as it came; no more than `limit` of it is read. */
export async function bodyOf(request: Request, limit: number): Promise<Bytes> {
  const chunks: Bytes[] = [];
  let size = Number(request.headers.get("content-length") ?? 0);
  if (size > limit) throw new Refused(413, "too large");
  size = 0;
  for await (const chunk of request.body ?? []) {
    size += chunk.length;
    if (size > limit) throw new Refused(413, "too large");
    chunks.push(chunk);
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}

export function hex(data: Uint8Array): string {
  const digits = new Uint8Array(data.length * 2);
  for (let n = 0; n < data.length; n++) {
    digits[2 * n] = DIGITS[data[n] >> 4];
    digits[2 * n + 1] = DIGITS[data[n] & 15];
  }
  return new TextDecoder().decode(digits);
}

export async function sha256(data: Bytes): Promise<string> {
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", data)));
}

export async function hmac(algorithm: string, key: Bytes, message: Bytes): Promise<Bytes> {
  const made = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: algorithm }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", made, message));
}

/** The key in a secret, as its provider shows it; undefined where it holds none. */
export function keyOf(secret: string, kind: "utf8" | "base64" | "hex" | "whsec"): Bytes | undefined {
  const text = kind === "whsec" ? secret.replace(/^whsec_/, "") : secret;
  if (text === "" || secret !== secret.trim()) return undefined;
  if (kind === "utf8") return utf8(text);
  if (kind === "hex") {
    const digits = /^([0-9a-f]{2})+$/i.test(text);
    return digits ? Uint8Array.from(text.match(/../g)!, (each) => parseInt(each, 16)) : undefined;
  }
  const base64 = /^[A-Za-z0-9+/]+={0,2}$/.test(text) && text.length % 4 === 0;
  return base64 ? Uint8Array.from(atob(text), (each) => each.charCodeAt(0)) : undefined;
}

/** Whether two texts are the same, in a time that does not tell how alike they are. */
export function same(a: string, b: string): boolean {
  let difference = a.length ^ b.length;
  for (let n = 0; n < a.length; n++) difference |= a.charCodeAt(n) ^ b.charCodeAt(n);
  return difference === 0;
}
