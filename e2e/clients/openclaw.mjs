// What the plugin of OpenClaw sends after a turn: its own client, its own
// instructions. OpenClaw itself is not installed: the one function that the plugin
// imports of it returns its argument. openclaw.mjs PACKAGE BASE KEY TEXT
import { register } from "node:module";
import { pathToFileURL } from "node:url";
const host = "data:text/javascript,export const definePluginEntry = (entry) => entry";
register("data:text/javascript," + encodeURIComponent(`export const resolve = (name, context, next) =>
  name.startsWith("openclaw/") ? { url: ${JSON.stringify(host)}, shortCircuit: true } : next(name, context)`));
const [, , dir, baseUrl, apiKey, text] = process.argv;
const { createProvider, mem0ConfigSchema } = await import(pathToFileURL(dir + "/dist/index.js"));
const config = mem0ConfigSchema.parse({ mode: "platform", apiKey, baseUrl, userId: "ann" });
const memory = createProvider(config, { resolvePath: (p) => p, logger: console });
try {
  await memory.add([{ role: "user", content: text }], { user_id: "ann", custom_instructions: config.customInstructions });
  console.log("added");
} catch (e) {
  console.log("refused: " + (e.message ?? e));
}
process.exit(0);
