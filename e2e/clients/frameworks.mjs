// One memory through a client's own class, as an application uses it.
// frameworks.mjs NODE_MODULES NAME TEXT ATTACK writes TEXT, waits until a search finds
// it, deletes it where the client can, and writes ATTACK. MEM0_HOST, MEM0_API_KEY,
// LETTA_BASE_URL and LETTA_API_KEY lead it.
import { execFileSync } from "node:child_process";
import Module, { createRequire, register } from "node:module";
import { pathToFileURL } from "node:url";

const [, , modules, name, text, attack] = process.argv;
const { MEM0_HOST: host, MEM0_API_KEY: apiKey, LETTA_BASE_URL: baseUrl } = process.env;
const model = "openai-proxy/gpt-4o-mini";
const load = (file) => import(pathToFileURL(`${modules}/${file}`));
const user = (content) => [{ role: "user", content }];

process.chdir(process.env.HOME); // some leave files where they run

// What plugins are plugged into is not installed: a base class, a function that
// returns its argument, and errors.
const stubs = { "@mastra/core/": "export class Integration {}", "openclaw/": "export const definePluginEntry = (entry) => entry" };
register("data:text/javascript," + encodeURIComponent(`
const stubs = ${JSON.stringify(stubs)};
export const resolve = (name, context, next) => {
  const of = Object.keys(stubs).find((prefix) => name.startsWith(prefix));
  return of ? { url: "data:text/javascript," + stubs[of], shortCircuit: true } : next(name, context);
}`));
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
class NodeError extends Error { constructor(node, cause) { super(cause.message ?? cause, { cause }); } }
const n8n = { NodeOperationError: NodeError, NodeApiError: NodeError, NodeConnectionTypes: {}, sleep: wait };
const inner = Module._load;
Module._load = (id, ...rest) => id === "n8n-workflow" ? n8n : inner(id, ...rest);

const clients = {
  async mem0_cli() {
    const run = (...words) => JSON.parse(execFileSync("node", [`${modules}/@mem0/cli/dist/index.js`, ...words, "--output", "json"], {
      env: { ...process.env, MEM0_BASE_URL: host }, encoding: "utf8", stdio: "pipe",
    }));
    return {
      add: (text) => run("add", text, "--user-id", name),
      find: () => run("search", "tea", "--user-id", name),
      delete: () => run("list", "--user-id", name).data.map((m) => run("delete", m.id, "--force")),
    };
  },

  async mem0_vercel() {
    const { addMemories, retrieveMemories } = await load("@mem0/vercel-ai-provider/dist/index.mjs");
    const options = { user_id: name, mem0ApiKey: apiKey, host };
    return {
      add: (text) => addMemories(user([{ type: "text", text }]), options),
      find: () => retrieveMemories("tea", options),
    };
  },

  async openclaw() {
    const { createProvider, mem0ConfigSchema } = await load("@mem0/openclaw-mem0/dist/index.js");
    const config = mem0ConfigSchema.parse({ mode: "platform", apiKey, baseUrl: host, userId: name });
    const memory = createProvider(config, { resolvePath: (p) => p, logger: console });
    return {
      add: (text) => memory.add(user(text), { user_id: name, custom_instructions: config.customInstructions }),
      find: () => memory.search("tea", { user_id: name }),
    };
  },

  async mastra() {
    const { Mem0Integration } = await load("@mastra/mem0/dist/index.js");
    const memory = new Mem0Integration({ config: { apiKey, host, userId: name } });
    return { add: (text) => memory.createMemory(text), find: () => memory.searchMemory("tea") };
  },

  // The node's requests go through n8n's own client, which is fetch here.
  async n8n() {
    const { Mem0 } = createRequire(import.meta.url)(`${modules}/@mem0/n8n-nodes-mem0/dist/nodes/Mem0/Mem0.node.js`);
    const helpers = {
      async httpRequestWithAuthentication(credential, { method, url, body, qs }) {
        const headers = { Authorization: `Token ${apiKey}`, "Content-Type": "application/json" };
        const answer = await fetch(`${url}?${new URLSearchParams(qs)}`, { method, headers, body: body && JSON.stringify(body) });
        const said = await answer.text();
        if (!answer.ok) throw new Error(`${answer.status} ${said}`);
        return said ? JSON.parse(said) : {};
      },
    };
    const run = async (parameters) => (await new Mem0().execute.call({
      helpers, getInputData: () => [{ json: {} }], getNode: () => ({}), continueOnFail: () => false,
      getCredentials: async () => ({ apiKey, baseUrl: host }),
      getNodeParameter: (key, item, otherwise) => ({ userId: name, ...parameters })[key] ?? otherwise,
    }))[0].map((item) => item.json);
    return {
      add: (text) => run({ operation: "add", "messages.message": user(text) }),
      find: () => run({ operation: "search", query: "tea" }),
      delete: async () => {
        for (const m of await run({ operation: "getAll" })) await run({ operation: "delete", memoryId: m.id });
      },
    };
  },

  async letta_vercel() {
    const { createLetta } = await load("@letta-ai/vercel-ai-sdk-provider/dist/index.mjs");
    const { generateText } = await load("ai/dist/index.mjs");
    const letta = createLetta();
    const agent = await letta.client.agents.create({ name: `vercel-${process.pid}`, model, embedding: "letta/letta-free", memoryBlocks: [{ label: "human", value: "" }] });
    return {
      add: (text) => generateText({
        model: letta(), providerOptions: { letta: { agent: { id: agent.id } } },
        prompt: text === attack ? text : `CALL memory_insert {"label":"human","new_string":"${text}"}\nTHEN\nSAY done`,
      }),
      find: async () => (await letta.client.agents.blocks.retrieve(agent.id, "human")).value,
    };
  },

  // It runs a Letta Code of its own.
  async letta_code_sdk() {
    const { createAgent, createSession } = await load("@letta-ai/letta-code-sdk/dist/index.js");
    const session = createSession(await createAgent({ model, memfs: false }), { permissionMode: "bypassPermissions" });
    let last;
    return {
      async add(text) {
        await session.send(text === attack ? text : "SAY " + text);
        for await (const m of session.stream()) {
          if (m.type === "error") throw new Error(m.message);
          if (m.type === "result") last = m.result;
        }
      },
      find: () => last,
    };
  },
};

try {
  const client = await clients[name]();
  await client.add(text);
  let found;
  for (let i = 0; i < 60; i++) { // the engine makes memories in the background, as the service does
    found = JSON.stringify(await client.find());
    if (found.includes(text.split(" ").at(-1))) break;
    await wait(500);
  }
  console.log("found:", found);
  if (client.delete) {
    await client.delete();
    console.log("left:", JSON.stringify(await client.find()));
  }
  console.log("not refused:", JSON.stringify(await client.add(attack)));
} catch (e) {
  console.log("refused:", e.name, e.message, e.stdout ?? "", e.stderr ?? "");
}
process.exit(0);
