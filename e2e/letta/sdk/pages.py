"""The current Python SDK walks lists of which some blocks are withheld.

Every third block goes through the proxy, the others past it. A reader that
asks for a least trust sees those that went through, and no others.
"""

import json

from letta_client import Letta
from lib.run import EMBEDDING, MODEL, options

given = options()
direct = Letta(base_url=given.direct, api_key=given.key)
proxied = Letta(base_url=given.base, api_key=given.key)
asking = Letta(base_url=given.base, api_key=given.key, default_headers={"X-Memproxy-Min-Trust": "0.5", "X-Memproxy-Provenance": "true"})
tag = f"pages-{given.suffix}"

through = []
for i in range(30):
    client = proxied if i % 3 == 0 and not 9 <= i < 22 else direct
    made = client.blocks.create(label="human", value=f"Tea number {i}", tags=[tag])
    if client is proxied:
        through.append(made.id)

agent = proxied.agents.create(name=f"pages-{given.suffix}", model=MODEL, embedding=EMBEDDING, memory_blocks=[])
kept = []
for i in range(12):
    client = proxied if i in (0, 7, 11) else direct
    made = client.agents.passages.create(agent.id, text=f"The tea number {i} is green.")
    if client is proxied:
        kept.append(made[0].id)


def blocks(limit):
    walked = list(asking.blocks.list(tags=[tag], limit=limit))
    return {"ids": [b.id for b in walked], "actors": sorted({b.metadata["memproxy_provenance"]["actor"] for b in walked})}


def passages(limit):
    ids, after = [], None
    while True:
        page = asking.agents.passages.list(agent.id, limit=limit, **({"after": after} if after else {}))
        if not page:
            return ids
        ids += [p.id for p in page]
        after = ids[-1]


print(json.dumps({"through": through, "walks": [blocks(2), blocks(4), blocks(100)], "kept": kept, "passages": [passages(2), passages(50)]}))
