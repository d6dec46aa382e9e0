// What the app declares of its inboxes: `redrive supabase init` writes this file anew.
export const API_SCHEMA = {schema};

/** A JSON pointer, a header's name, {id} for the scheme's own id header; or several, joined by colons. */
export type Place = string | { parts: string[]; extra: string[]; hashed: boolean };
export type Inbox = {
  queue: string;
  /** Bytes that a body may have. */
  limit: number;
  /** Variables that hold the signing secrets, newest first; one counts until that moment (ms). */
  secrets: { variable: string; until?: number }[];
  families: { signature: string; id?: string; timestamp?: string }[];
  /** How the signature's header is read: items between separators, time and digests after prefixes. */
  layout: { separator?: string; time?: string; prefix: string };
  signed: string;
  algorithm: "SHA-1" | "SHA-256" | "SHA-512";
  encoding: "hex" | "base64";
  key: "utf8" | "base64" | "hex" | "whsec";
  /** Seconds that a signature may be old, or ahead. */
  tolerance?: number;
  bodyTime?: string;
  id: Place[];
  type: Place[];
  resource: Place[];
  /** The id is made of a state that may come back. */
  derived: boolean;
  bodyHash: boolean;
  /** Top-level fields that change from one delivery of an event to the next. */
  volatile: string[] | null;
  greets?: "github" | "slack" | "zoom";
};

export const inboxes = new Map<string, Inbox>({inboxes});
