// Runs a scenario step by step and prints one comparable JSON line per step.
//
// Two runs of a scenario, one straight to the server and one through the proxy, have
// to print the same lines. What must differ between runs (ids, times, the suffix, the
// base URL) becomes a placeholder; an id keeps its number for the whole run, so a
// proxy that mixes up ids still shows. Runs are the exception: a gated message may
// take several.
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = path.dirname(fileURLToPath(import.meta.url));
const home = process.env.E2E_HOME || path.resolve(here, "../../../../.e2e");
const PREFIX = "memproxy_";

// The SDK lives outside the source tree, where plain import would not look.
export const load = createRequire(path.join(home, "letta-js", "package.json"));

export const MODEL = "openai-proxy/gpt-4o-mini";
export const EMBEDDING = "openai/text-embedding-3-small";
export const UNKNOWN = "00000000-0000-4000-8000-00000000dead";

export function options() {
  const { values } = parseArgs({
    options: {
      base: { type: "string" },
      key: { type: "string", default: "letta-e2e" },
      suffix: { type: "string", default: "sfx0001" },
      "with-admin": { type: "boolean", default: false },
    },
  });
  if (!values.base) {
    console.error("usage: scenario --base URL [--key KEY] [--suffix S] [--with-admin]");
    process.exit(2);
  }
  return { ...values, base: values.base.replace(/\/$/, ""), withAdmin: values["with-admin"] };
}

function normaliser({ base, suffix, key }) {
  const strip = process.env.STRIP_MEMPROXY === "1";
  const ids = new Map();
  const stems = new Map();
  const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
  const time = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?/g;
  const clock = /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?( [AP]M UTC[+-]\d{4})?/g;
  const known = (id, name) => {
    if (name === "run_id") return "<run>";
    // An otid is its message's id with another last byte, now and then the same one.
    if (name === "otid" && stems.has(id.slice(0, -2))) return stems.get(id.slice(0, -2));
    if (!ids.has(id)) {
      ids.set(id, `<${ids.size + 1}>`);
      if (!stems.has(id.slice(0, -2))) stems.set(id.slice(0, -2), ids.get(id));
    }
    return ids.get(id);
  };
  const text = (value, name) =>
    value
      .replaceAll(base, "<base>")
      .replaceAll(key, "<key>")
      .replaceAll(suffix, "<suffix>")
      .replace(uuid, (id) => known(id, name))
      .replace(time, "<time>")
      .replace(clock, "<time>");
  const label = (item) => item?.tool_name ?? item?.name ?? JSON.stringify(item);

  return function walk(value, name = "") {
    if (typeof value === "string") return text(value, name);
    if (typeof value === "number") {
      if (/(_ms|_ns)$/.test(name)) return "<duration>";
      return /score$/.test(name) ? Number(value.toFixed(6)) : value;
    }
    if (Array.isArray(value)) {
      if (name === "embedding" && value.length) return `<${value.length} numbers>`;
      // The server lists these as its database happens to.
      if (/^(tools|tool_rules|tags)$/.test(name)) value = [...value].sort((a, b) => (label(a) < label(b) ? -1 : 1));
      return value.map((item) => walk(item, name));
    }
    if (value === null || typeof value !== "object") return value;
    const kept = Object.keys(value)
      .sort()
      .filter((k) => !strip || !k.startsWith(PREFIX));
    return Object.fromEntries(kept.map((k) => [text(k), walk(value[k], k)]));
  };
}

export class Run {
  constructor(given) {
    this.given = given;
    this.normalise = normaliser(given);
  }

  // show picks what of the answer is printed; the caller gets all of it.
  async step(name, action, show = (value) => value) {
    try {
      const value = await action();
      this.print(name, true, show(value));
      return value;
    } catch (error) {
      this.print(name, false, this.describe(error));
      process.exit(1);
    }
  }

  async fails(name, action) {
    try {
      const value = await action();
      this.print(name, false, { unexpected: value });
    } catch (error) {
      this.print(name, true, this.describe(error));
      return;
    }
    process.exit(1);
  }

  describe(error) {
    return { error: { name: error.constructor?.name, status: error.status, message: error.message, body: error.error } };
  }

  print(step, ok, result) {
    console.log(JSON.stringify({ step, ok, result: this.normalise(result ?? null) }));
  }

  // For what the SDK has no method for.
  async raw(method, path, body, headers = {}) {
    const response = await fetch(this.given.base + path, {
      method,
      headers: {
        Authorization: `Bearer ${this.given.key}`,
        "Content-Type": "application/json",
        "X-Stainless-Package-Version": "1.12.1",
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const answer = await response.text();
    if (!response.ok) {
      const error = new Error(`${method} ${path}: ${answer}`);
      throw Object.assign(error, { status: response.status });
    }
    return answer ? JSON.parse(answer) : null;
  }

  // Pings come by the clock; the first one of a stream carries the run.
  async drain(stream) {
    const events = [];
    for await (const event of stream) if (event.message_type !== "ping") events.push(event);
    return events;
  }

  async all(page) {
    const items = [];
    for await (const item of page) items.push(item);
    return items;
  }
}

export const brief = (agent) => ({
  name: agent.name,
  agent_type: agent.agent_type,
  tags: agent.tags,
  description: agent.description,
  metadata: agent.metadata,
  tools: agent.tools?.map((tool) => tool.name),
  tool_rules: agent.tool_rules,
  blocks: agent.blocks && [...agent.blocks].sort((a, b) => (a.label < b.label ? -1 : 1)),
});
