// What the app declares of its queues: `redrive supabase init` writes this file anew.
export const API_SCHEMA = {schema};
/** Shorter than the time between two ticks. */
export const BUDGET_SECONDS = {budget};
/** vt: seconds a delivery holds without a heartbeat; timeout: seconds an attempt may take; lanes: at once. */
export const queues = {
{queues}} as const;

export type Queue = keyof typeof queues;
/** `id` is the message's in its queue, `key` the work's, or null; `attempt` counts from 1. */
export type Job = { id: number; queue: Queue; attempt: number; key: string | null; signal: AbortSignal };
// deno-lint-ignore no-explicit-any
export type Handlers = Record<Queue, (payload: any, job: Job) => unknown>;
// deno-lint-ignore no-explicit-any
export type Message = { msg_id: number; read_ct: number; attempt: number; key: string | null; message: any };
