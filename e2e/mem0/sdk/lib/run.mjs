// Runs a scenario step by step and prints one comparable JSON line per step.
//
// Two runs of a scenario, one straight to the engine and one through the proxy,
// have to print the same lines. What must differ between runs (ids, times, the
// suffix, the base URL) becomes a placeholder; an id keeps its number for the
// whole run, so a proxy that mixes up ids still shows.
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = path.dirname(fileURLToPath(import.meta.url));
const home = process.env.E2E_HOME || path.resolve(here, "../../../../.e2e");
const PREFIX = "memproxy_";

// The SDKs live outside the source tree, where plain import would not look.
export const load = createRequire(path.join(home, "mem0-js", "package.json"));

process.env.MEM0_TELEMETRY = "false";

export function options() {
  const { values } = parseArgs({
    options: {
      base: { type: "string" },
      key: { type: "string" },
      suffix: { type: "string", default: "sfx0001" },
      "with-admin": { type: "boolean", default: false },
    },
  });
  if (!values.base || !values.key) {
    console.error("usage: scenario --base URL --key KEY [--suffix S] [--with-admin]");
    process.exit(2);
  }
  return { ...values, base: values.base.replace(/\/$/, ""), withAdmin: values["with-admin"] };
}

function normaliser({ base, suffix, key }) {
  const strip = process.env.STRIP_MEMPROXY === "1";
  const ids = new Map();
  const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
  const time = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?/g;
  const text = (value) =>
    value
      .replaceAll(base, "<base>")
      .replaceAll(key, "<key>")
      .replaceAll(suffix, "<suffix>")
      .replace(uuid, (id) => {
        if (!ids.has(id)) ids.set(id, `<id-${ids.size + 1}>`);
        return ids.get(id);
      })
      .replace(time, "<time>")
      .replace(/\b[0-9a-f]{32}\b/g, "<hash>");

  return function walk(value, name = "") {
    if (typeof value === "string") return text(value);
    if (typeof value === "number") {
      if (name === "latency") return "<latency>";
      if (/^(id|webhookId|webhook_id)$/.test(name)) return "<number>";
      return name === "score" ? Number(value.toFixed(6)) : value;
    }
    if (Array.isArray(value)) return value.map((item) => walk(item, name));
    if (value === null || typeof value !== "object") return value;
    const keys = Object.keys(value).sort();
    const kept = strip ? keys.filter((k) => !k.startsWith(PREFIX)) : keys;
    // Metadata that held nothing but the proxy's keys was no metadata before.
    if (keys.length > 0 && kept.length === 0) return null;
    const walked = kept.map((k) => [text(k), walk(value[k], k)]);
    // Some answers say "no metadata" with null and some by leaving it out; once
    // the proxy has stamped an entry, the two can no longer be told apart.
    return Object.fromEntries(walked.filter(([k, v]) => k !== "metadata" || v !== null));
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

  async fails(name, action, show = (error) => this.describe(error)) {
    try {
      const value = await action();
      this.print(name, false, { unexpected: value });
    } catch (error) {
      this.print(name, true, show(error));
      return;
    }
    process.exit(1);
  }

  describe(error) {
    const { name, errorCode, message, debugInfo, details } = error;
    return { error: { name, errorCode, message, debugInfo, details } };
  }

  print(step, ok, result) {
    console.log(JSON.stringify({ step, ok, result: this.normalise(result ?? null) }));
  }

  // For what the SDK has no method for.
  async raw(method, url, body) {
    const { base, key } = this.given;
    const response = await fetch(url.startsWith("/") ? base + url : url, {
      method,
      headers: { Authorization: `Token ${key}`, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const answer = await response.text();
    if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${answer}`);
    return JSON.parse(answer);
  }

  async finished(eventId) {
    for (let attempt = 0; attempt < 200; attempt++) {
      const event = await this.raw("GET", `/v1/event/${eventId}/`);
      if (event.status === "SUCCEEDED" || event.status === "FAILED") return event;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    throw new Error(`event ${eventId} never finished`);
  }

  // The engine is shared by all runs; a listing is compared by what is ours.
  ours(rows) {
    return rows.filter((row) => JSON.stringify(row).includes(this.given.suffix));
  }
}

export const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";
export const FACTS = [
  "The deployment key rotates every Friday",
  "Payments run in the Frankfurt region",
  "Alice prefers oat milk in coffee",
  "The staging database holds anonymised rows",
  "Bob plays violin in an orchestra",
  "Café Übermut serves 日本茶 and “quotes” 🍵",
  "Invoices are archived for ten years",
];
