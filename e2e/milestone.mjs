// Adds a memory with the unmodified npm client and finds it again. Prints the
// memory as it came back.
const { load } = await import("./mem0/sdk/lib/run.mjs");
const { MemoryClient } = load("mem0ai");
const [base, key] = process.argv.slice(2);
const client = new MemoryClient({ apiKey: key, host: base });
await client.ping();
await client.add([{ role: "user", content: "Alice takes oat milk in her coffee" }], {
  userId: "alice", agentId: "dev", infer: false, metadata: { confidence: 0.95 },
});
const found = await client.search("what milk does Alice take", { filters: { user_id: "alice" } });
console.log(JSON.stringify(found.results[0]));
