"""The unmodified Letta client writes one passage; prints what it was told and what it reads then.

    call_letta.py BASE AGENT|- TEXT
"""

import json
import sys

from letta_client import Letta

base, agent, text = sys.argv[1:]
client = Letta(base_url=base, api_key="none")
if agent == "-":
    agent = client.agents.create(name="holds", model="openai-proxy/gpt-4o-mini", embedding="openai/text-embedding-3-small", memory_blocks=[]).id
told = {"agent": agent}
try:
    if text:
        told["answer"] = [p.text for p in client.agents.passages.create(agent, text=text)]
except Exception as e:
    told |= {"raised": type(e).__name__, "of": type(e).__module__, "says": str(e)}
told["reads"] = [p.text for p in client.agents.passages.list(agent)]
print(json.dumps(told))
