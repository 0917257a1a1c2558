"""The current Python SDK walks pages of which some memories are withheld.

Every third memory goes through the proxy, the others past it. A reader that
asks for a least trust sees those that went through, and no others.
"""

import argparse
import json

import httpx
from mem0 import MemoryClient

given = argparse.ArgumentParser()
for name in ("--base", "--direct", "--key", "--suffix"):
    given.add_argument(name, required=True)
given = given.parse_args()
user = f"pages-{given.suffix}"
direct = MemoryClient(api_key=given.key, host=given.direct)
proxied = MemoryClient(api_key=given.key, host=given.base)
asking = MemoryClient(api_key=given.key, host=given.base, client=httpx.Client(headers={"X-Memproxy-Min-Trust": "0.5", "X-Memproxy-Provenance": "true"}, timeout=60))

through = []
for i in range(23):
    client = proxied if i % 3 == 0 else direct
    made = client.add([{"role": "user", "content": f"The tea number {i} is green."}], user_id=user, infer=False)
    if i % 3 == 0:
        through += [m["id"] for m in made["results"]]


def walk(size):
    ids, counts, told = [], [], []
    page = 1
    while page < 20:
        answer = asking.get_all(filters={"user_id": user}, page=page, page_size=size)
        ids += [m["id"] for m in answer["results"]]
        told += [m["metadata"]["memproxy_provenance"]["actor"] for m in answer["results"]]
        counts.append(answer["count"])
        if not answer["next"]:
            break
        page += 1
    return {"ids": ids, "counts": counts, "pages": page, "actors": sorted(set(told))}


def search(k):
    return [m["id"] for m in asking.search("tea green", filters={"user_id": user}, top_k=k, threshold=0)["results"]]


print(json.dumps({"through": through, "walks": [walk(3), walk(4), walk(100)], "searches": [search(3), search(8)]}))
