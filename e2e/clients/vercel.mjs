// The provider of the Vercel AI SDK: vercel.mjs PACKAGE BASE KEY TEXT
import { pathToFileURL } from "node:url";
const [, , dir, host, mem0ApiKey, text] = process.argv;
const { addMemories, retrieveMemories } = await import(pathToFileURL(dir + "/dist/index.mjs"));
const options = { user_id: "ann", mem0ApiKey, host };
await addMemories([{ role: "user", content: [{ type: "text", text }] }], options);
console.log(await retrieveMemories("tea", options));
