// What was thrown, as texts that the database holds. `redrive supabase init` writes this file anew.

export type Told = { type: string; text: string; trace: string };

/** Never throws, whatever it is given: also not what refuses to be read, or to be text. */
export function told(thrown: unknown): Told {
  const [name, message, stack] = ["name", "message", "stack"].map((each) => read(thrown, each));
  if (typeof message !== "string" && !isError(thrown)) {
    return { type: "Error", text: storable(textOf(thrown)), trace: "" };
  }
  const words = (value: unknown) => storable(value === undefined ? "" : textOf(value));
  const texts = [name || "Error", message, stack].map(words);
  return { type: texts[0], text: texts[1], trace: texts[2] };
}

/** One line and a trace, for the log. */
export function logged(thrown: unknown): string {
  const { type, text, trace } = told(thrown);
  return trace || `${type}: ${text}`;
}

/** Logs the failure of a promise that nobody awaits, which would else end this process and all jobs in it. */
export function outliveStrays(): void {
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    console.error("a promise nobody awaited has failed:", logged(event.reason));
  });
  globalThis.addEventListener("error", (event) => {
    event.preventDefault();
    console.error("an error nobody caught:", logged(event.error));
  });
}

function read(value: unknown, name: string): unknown {
  try {
    return (value as Record<string, unknown>)[name];
  } catch {
    return undefined;
  }
}

function isError(value: unknown): boolean {
  try {
    return value instanceof Error;
  } catch {
    return false;
  }
}

/** As `String` writes it; an object that has no words for itself, as JSON. */
function textOf(value: unknown): string {
  for (const write of [String, JSON.stringify]) {
    try {
      const text = write(value);
      if (typeof text === "string" && !text.startsWith("[object ")) return text;
    } catch { // by the next
    }
  }
  return `${typeof value} that cannot be written as text`;
}

const storable = (text: string) => text.slice(0, 20_000).replaceAll("\0", "").toWellFormed();
