// What a body says, read as `redrive serve` reads it. `redrive supabase init` writes this file anew.
// Where no two readers agree: `redrive serve` reads nesting as deep as its Python allows (from about 950 levels
// in 3.11 to many thousands in later ones); deeper than `DEEPEST`, a body counts as no JSON here.
import type { Bytes } from "./bytes.ts";

const DEEPEST = 900;
/** Written out, numbers with exponents have no more digits than this together. */
const MOST_DIGITS = 50_000_000;

/** The body as JSON, else a form's fields, or the JSON in its field `payload`; undefined of anything else. */
export function documentOf(headers: Headers, body: Bytes): unknown {
  const parsed = json(textOf(body));
  const kind = (headers.get("content-type") ?? "").split(";")[0].trim().toLowerCase();
  if (parsed != null || kind !== "application/x-www-form-urlencoded" || body.length > 1_000_000) return parsed;
  let text = ""; // a character a byte
  for (let n = 0; n < body.length; n += 8_192) text += String.fromCharCode(...body.subarray(n, n + 8_192));
  if (text.split("&").length > 1_000) return undefined;
  const fields = Object.fromEntries([...new URLSearchParams(`&${text}`)].reverse());
  const inner = json(fields.payload);
  return inner === undefined ? fields : inner;
}

/** The body as it came, where it is JSON that Postgres may hold, too. */
export function jsonOf(body: Bytes): string | undefined {
  const text = textOf(body);
  return json(text, false) === undefined ? undefined : text;
}

function textOf(body: Bytes): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch {
    return undefined;
  }
}

/** As Python's json reads it, which `wide` knows NaN and Infinity: they are no text and no integer either. */
function json(text: string | undefined, wide = true): unknown {
  const { depth, digits } = measured(text ?? "");
  if (text === undefined || depth > DEEPEST || digits > MOST_DIGITS) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    const known = wide && /NaN|Infinity/.test(text);
    return known ? json(outside(text, /\\.|"|NaN|-?Infinity/gs, () => "true"), false) : undefined;
  }
}

/** The text with what `pattern` finds outside of strings changed; it finds quotes and what is escaped, too. */
function outside(text: string, pattern: RegExp, change: (found: string) => string): string {
  let inside = false;
  return text.replace(pattern, (found) => {
    if (found === '"') inside = !inside;
    return inside || found === '"' || found.startsWith("\\") ? found : change(found);
  });
}

/** How deep it is nested, and how many digits the exponents of its numbers stand for. */
function measured(text: string): { depth: number; digits: number } {
  let [now, depth, digits, inside] = [0, 0, 0, false];
  for (let n = 0; n < text.length; n++) {
    const code = text.charCodeAt(n);
    if (code === 0x22) inside = !inside;
    else if (code === 0x5c) n++;
    else if (inside) continue;
    else if (code === 0x5b || code === 0x7b) depth = Math.max(depth, ++now);
    else if (code === 0x5d || code === 0x7d) now--;
    else if (code === 0x65 || code === 0x45) { // also in true and false, where no digits follow
      const exponent = /[+-]?0*([0-9]{0,9})/y;
      exponent.lastIndex = n + 1;
      digits += Number(exponent.exec(text)![1]);
    }
  }
  return { depth, digits };
}
