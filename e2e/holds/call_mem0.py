"""One call of the unmodified Python client; prints its answer, or the error it raised, as JSON.

    call_mem0.py BASE KEY add USER TEXT | event ID | get ID
"""

import json
import sys

from mem0 import MemoryClient

base, key, what, *rest = sys.argv[1:]
client = MemoryClient(api_key=key, host=base)
try:
    if what == "add":
        answer = client.add([{"role": "user", "content": rest[1]}], user_id=rest[0], infer=False)
    elif what == "event":
        answer = client.client.get(f"/v1/event/{rest[0]}/").raise_for_status().json()
    else:
        answer = client.get(rest[0])
except Exception as e:  # whatever it is, the test says which it should be
    answer = {"raised": type(e).__name__, "of": type(e).__module__, "says": str(e)}
print(json.dumps(answer))
