// Bodies that were sent packed, as their Content-Encoding says. `redrive supabase init` writes this file anew.
import { type Bytes, Refused } from "./bytes.ts";

type Format = "gzip" | "deflate";
const FORMATS: Record<string, Format> = { gzip: "gzip", "x-gzip": "gzip", deflate: "deflate" };

/** How it is packed; undefined where it is not, or nobody knows how. Refuses what says that it is too large. */
export function packing(headers: Headers, raw: Bytes, limit: number): Format | undefined {
  const name = (headers.get("content-encoding") ?? "").trim().toLowerCase();
  const format = Object.hasOwn(FORMATS, name) ? FORMATS[name] : undefined;
  const claimed = raw.length < 18 ? 0 : new DataView(raw.buffer).getUint32(raw.length - 4, true);
  if (format === "gzip" && claimed > limit) throw new Refused(413, "too large");
  return format;
}

/** What it holds, no more than `limit` of it; the body itself where it is not what it says it is. */
export async function unpacked(raw: Bytes, format: Format | undefined, limit: number): Promise<Bytes> {
  if (format === undefined) return raw;
  let at = 0; // in small pieces: each may become a thousand times as large
  const pull = (to: ReadableStreamDefaultController<Bytes>) =>
    at < raw.length ? to.enqueue(raw.slice(at, at += 4_096)) : to.close();
  const pieces: Bytes[] = [];
  let size = 0;
  try {
    for await (const piece of new ReadableStream({ pull }).pipeThrough(new DecompressionStream(format))) {
      if ((size += piece.length) > limit) throw new Refused(413, "too large");
      pieces.push(piece);
    }
  } catch (error) {
    if (error instanceof Refused) throw error;
    return raw;
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}
