// One call of the unmodified npm client; prints its answer, or the error it
// threw, as JSON.
//
//   call_mem0.mjs PACKAGE BASE KEY add USER TEXT | event ID | get ID
import { load } from "../mem0/sdk/lib/run.mjs";

const [name, base, key, what, ...rest] = process.argv.slice(2);
const { MemoryClient } = load(name);
const client = new MemoryClient({ apiKey: key, host: base });
const call = {
  add: () => client.add([{ role: "user", content: rest[1] }], { userId: rest[0], user_id: rest[0], infer: false }),
  event: async () => (await fetch(`${base}/v1/event/${rest[0]}/`, { headers: { Authorization: `Token ${key}` } })).json(),
  get: () => client.get(rest[0]),
}[what];
try {
  console.log(JSON.stringify(await call()));
} catch (e) {
  console.log(JSON.stringify({ raised: e.constructor.name, name: e.name, says: String(e.message) }));
}
process.exit(0);
