// Letta Code's SDK, which runs a Letta Code of its own: an agent, two turns, its end.
// letta-code-sdk.mjs PACKAGE MODEL
import { pathToFileURL } from "node:url";
const [, , dir, model] = process.argv;
const { createAgent, createSession } = await import(pathToFileURL(dir + "/dist/index.js"));
const agent = await createAgent({ model, memfs: false });
const session = createSession(agent, { permissionMode: "bypassPermissions" });
for (const text of ["SAY one", "SAY two"]) {
  await session.send(text);
  for await (const m of session.stream()) if (m.type === "result") console.log(m.success, m.result ?? m.error);
}
session.close();
process.exit(0);
