"""One memory through a client's own class, as an application uses it.

frameworks.py NAME TEXT ATTACK writes TEXT, waits until a search finds it, deletes it
where the client can, and writes ATTACK. MEM0_HOST, MEM0_API_KEY, LETTA_BASE_URL and
LETTA_API_KEY lead it.
"""

import asyncio
import functools
import json
import os
import subprocess
import sys
import time

HOST, KEY = os.environ["MEM0_HOST"], os.environ["MEM0_API_KEY"]
MODEL = {"model": "openai-proxy/gpt-4o-mini", "embedding": "letta/letta-free"}


def address():
    """What docs/clients.md says for frameworks that make a client of their own."""
    import mem0

    mem0.MemoryClient.__init__ = functools.partialmethod(mem0.MemoryClient.__init__, host=HOST)


def haystack():
    address()
    from haystack.dataclasses import ChatMessage
    from haystack_integrations.components.retrievers.mem0 import Mem0MemoryRetriever
    from haystack_integrations.components.writers.mem0 import Mem0MemoryWriter
    from haystack_integrations.memory_stores.mem0 import Mem0MemoryStore

    store = Mem0MemoryStore()
    writer, retriever = Mem0MemoryWriter(memory_store=store), Mem0MemoryRetriever(memory_store=store)
    return {
        "add": lambda text: writer.run(messages=[ChatMessage.from_user(text)], user_id="haystack"),
        "find": lambda: [m.text for m in retriever.run(query="tea", user_id="haystack")["memories"]],
    }


def llama_index():
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import Memory
    from llama_index.memory.mem0 import Mem0Memory
    from mem0 import MemoryClient

    # Its from_client passes parameters that mem0ai 2 no longer has.
    memory = Mem0Memory(
        context={"user_id": "llama"}, client=MemoryClient(KEY, HOST), primary_memory=Memory.from_defaults()
    )
    return {
        "add": lambda text: memory.put(ChatMessage(role="user", content=text)),
        "find": lambda: [m.content for m in memory.get("tea") if m.role == "system"],
    }


def agent_framework():
    from agent_framework import AgentSession, Message, SessionContext
    from agent_framework_mem0 import Mem0ContextProvider
    from mem0 import AsyncMemoryClient

    async def turn(hook, text):
        client = AsyncMemoryClient(api_key=KEY, host=HOST)
        provider = Mem0ContextProvider(mem0_client=client, user_id="agent-framework", search_user_id="agent-framework")
        context = SessionContext(input_messages=[Message("user", [text])])
        await getattr(provider, hook)(agent=None, session=AgentSession(), context=context, state={})
        return [m.text for messages in context.context_messages.values() for m in messages]

    return {
        "add": lambda text: asyncio.run(turn("after_run", text)),
        "find": lambda: asyncio.run(turn("before_run", "tea")),
    }


def strands():
    from mem0_strands import Mem0MemoryStore

    store = Mem0MemoryStore(user_id="strands", host=HOST)
    return {
        "add": lambda text: asyncio.run(store.add_messages([{"role": "user", "content": [{"text": text}]}])),
        "find": lambda: [m.content for m in asyncio.run(store.search("tea"))],
    }


def mcp_server():
    two_lines = """
import functools, os, mem0
mem0.MemoryClient.__init__ = functools.partialmethod(mem0.MemoryClient.__init__, host=os.environ["MEM0_HOST"])
from mem0_mcp_server import server
server.main()
"""
    server = subprocess.Popen([sys.executable, "-c", two_lines], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(method, **params):
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        return json.loads(server.stdout.readline())["result"]

    ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "e2e", "version": "1"})
    server.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')

    def use(tool, **arguments):
        text = ask("tools/call", name=tool, arguments=arguments)["content"][0]["text"]
        said = json.loads(text)
        if isinstance(said, dict) and "error" in said:
            raise RuntimeError(said["error"])
        return said

    return {
        "add": lambda text: use("add_memory", text=text, user_id="mcp"),
        "find": lambda: use("search_memories", query="tea", filters={"user_id": "mcp"})["results"],
        "delete": lambda: [
            use("delete_memory", memory_id=m["id"])
            for m in use("get_memories", filters={"user_id": "mcp"})["results"]
        ],
    }


def nemo():
    from nat.builder.workflow_builder import WorkflowBuilder
    from nat.plugins.mem0ai.memory import Mem0MemoryClientConfig
    from nat.tool.memory_tools.add_memory_tool import AddToolConfig
    from nat.tool.memory_tools.delete_memory_tool import DeleteToolConfig
    from nat.tool.memory_tools.get_memory_tool import GetToolConfig

    async def call(tool, arguments):
        async with WorkflowBuilder() as builder:
            await builder.add_memory_client("mem0", Mem0MemoryClientConfig(host=HOST))
            await builder.add_function("tool", tool(memory="mem0", user_id=f"nemo-{os.getpid()}"))
            return await (await builder.get_function("tool")).ainvoke(arguments)

    def use(tool, **arguments):
        return asyncio.run(call(tool, arguments))

    def find():
        return [m["memory"] for m in json.loads(use(GetToolConfig, query="tea", top_k=5).partition("\n")[2])]

    return {
        "add": lambda text: use(AddToolConfig, memory=text, tags=["drinks"]),
        "find": find,
        "delete": lambda: use(DeleteToolConfig),
    }


def cli():
    def use(*words):
        run = subprocess.run(
            [sys.executable, "-m", "mem0_cli", *words, "--output", "json"],
            env=dict(os.environ, MEM0_BASE_URL=HOST), capture_output=True, text=True,
        )
        if run.returncode:
            raise RuntimeError(run.stdout + run.stderr)
        return json.loads(run.stdout)

    return {
        "add": lambda text: use("add", text, "--user-id", "cli"),
        "find": lambda: use("search", "tea", "--user-id", "cli"),
        "delete": lambda: [use("delete", m["id"], "--force") for m in use("list", "--user-id", "cli")["data"]],
    }


def letta_memory():
    import letta_memory as package

    # It has no parameter for an address, and asks for a model that this server lacks.
    for name in ("Letta", "AsyncLetta"):
        setattr(package, name, functools.partial(getattr(package, name), base_url=os.environ["LETTA_BASE_URL"]))
    memory = package.Memory()
    create = memory.letta_client.agents.create
    memory.letta_client.agents.create = lambda **asked: create(**(asked | MODEL))
    user = f"letta-memory-{os.getpid()}"
    return {
        "add": lambda text: memory.add_messages(user, [{"role": "user", "content": text}]),
        "find": lambda: [p.content for p in memory.search(user, "tea").results] if memory.get_memory_agent_id(user) else [],
        "delete": lambda: memory.delete_user(user),
    }


def openai_gateway():
    from openai import OpenAI

    client = OpenAI(base_url=os.environ["LETTA_BASE_URL"] + "/v1", api_key=os.environ["LETTA_API_KEY"])
    blocks = [{"label": "human", "value": "", "limit": 2000}]
    agent = client.post("/agents/", cast_to=object, body=MODEL | {"name": f"gateway-{os.getpid()}", "memory_blocks": blocks})["id"]

    def add(text):  # the server answers streams only
        insert = json.dumps({"label": "human", "new_string": text})
        asked = [{"role": "user", "content": f"CALL memory_insert {insert}\nTHEN\nSAY noted"}]
        said = client.chat.completions.create(model=agent, messages=asked, stream=True)
        return "".join(part.choices[0].delta.content or "" for part in said if part.choices)

    return {
        "add": add,
        "find": lambda: client.get(f"/agents/{agent}/core-memory/blocks/human", cast_to=object)["value"],
    }


# The graders ask no model, and with prices of its own it downloads no list of them.
SUITE = """
name: memory
dataset: samples.jsonl
cleanup: true
target:
  model_handles: [%(model)s]
  pricing: {%(model)s: {input_per_mtok: 1, output_per_mtok: 1}}
  flags: --base-tools memory_insert
graders:
  said: {kind: tool, function: contains, extractor: last_assistant}
  remembers: {kind: tool, function: contains, extractor: memory_block, extractor_config: {block_label: human}}
reward: {kind: metric, metric_key: remembers}
"""


def letta_evals():
    from letta_client import Letta, NotFoundError

    os.chdir(os.environ["HOME"])
    letta = Letta()
    last = []

    def evaluate(*samples):
        with open("suite.yaml", "w") as suite, open("samples.jsonl", "w") as dataset:
            suite.write(SUITE % MODEL)
            dataset.writelines(json.dumps(s) + "\n" for s in samples)
        command = [sys.executable, "-m", "letta_evals.cli", "run", "suite.yaml", "--output", "out"]
        subprocess.run(command, check=True, stdout=sys.stderr)
        with open(f"out/{MODEL['model'].replace('/', '-')}.jsonl") as results:
            last[:] = sorted(map(json.loads, results), key=lambda r: r["sample_id"])
        for r in last:
            if "error" in r:
                raise RuntimeError(r["error"]["message"])

    def sample(text):
        insert = json.dumps({"label": "human", "new_string": text})
        return {"input": f"CALL memory_insert {insert}\nTHEN\nSAY {text}", "ground_truth": text}

    def exists(agent):
        try:
            return letta.agents.retrieve(agent)
        except NotFoundError:
            return None

    def delete():  # the suite's cleanup has done it
        last[:] = [r for r in last if exists(r["agent_id"])]

    return {
        "add": lambda text: evaluate(sample(text), {"input": "SAY nothing", "ground_truth": text}),
        "find": lambda: [[r["reward"], r["submissions"]] for r in last],
        "delete": delete,
    }


def main(name, text, attack):
    try:
        client = globals()[name]()
        client["add"](text)
        for _ in range(60):  # the engine makes memories in the background, as the service does
            found = client["find"]()
            if text.split()[-1] in str(found):
                break
            time.sleep(0.5)
        print("found:", found)
        if "delete" in client:
            client["delete"]()
            print("left:", client["find"]())
        print("not refused:", client["add"](attack))
    except Exception as e:
        print("refused:", type(e).__name__, e)


main(*sys.argv[1:])
sys.stdout.flush()
os._exit(0)  # without waiting for telemetry, or the end of an MCP server
