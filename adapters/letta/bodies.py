"""Prints bodies.txt: the members of the request bodies of the Letta V1 server,
from the server's OpenAPI document. A line names an operation, or with an @ a kind
of object inside bodies, and its members; those that can hold text come first, the
others after a bar.

Run it with a Python in which letta==0.16.8 is installed:

    python adapters/letta/bodies.py > adapters/letta/bodies.txt
"""

import contextlib
import sys

INSIDE = {
    "@block": ("CreateBlock", "BlockSchema"),
    "@message": ("MessageCreate", "ApprovalCreate", "ToolReturnCreate", "MessageSchema"),
    "@agent": ("AgentSchema",),
    "@group": ("GroupSchema",),
    "@file": ("FileSchema",),
    "@folder": ("SourceSchema",),
    "@tool": ("ToolSchema",),
    "@property": ("IdentityProperty",),
    "@skill": ("SkillSchema",),
}


def server():
    with contextlib.redirect_stdout(sys.stderr):
        from letta.server.rest_api.app import create_application
        from letta.schemas import agent_file

        return create_application().openapi(), agent_file


def main():
    doc, files = server()
    schemas = doc["components"]["schemas"]

    def resolved(schema):
        while "$ref" in schema:
            schema = schemas[schema["$ref"].rsplit("/", 1)[1]]
        return schema

    def members(schema):
        schema = resolved(schema)
        out = {}
        for word in ("anyOf", "oneOf", "allOf"):
            for one in schema.get(word, []):
                out |= members(one)
        if schema.get("type") == "array":
            out |= members(schema.get("items", {}))
        return out | schema.get("properties", {})

    def text(schema, depth=0):
        schema = resolved(schema)
        if depth > 4 or schema.get("type") in ("string", "object"):
            return True
        if schema.get("type") == "array":
            return text(schema.get("items", {}), depth + 1)
        inside = [one for word in ("anyOf", "oneOf", "allOf") for one in schema.get(word, [])]
        return any(text(one, depth + 1) for one in inside) if inside else "type" not in schema

    def line(name, found):
        said = sorted(m for m, s in found.items() if text(s))
        print(name, *said, "|", *sorted(found.keys() - set(said)))

    print("# Written by bodies.py. Do not edit.")
    for path, ops in sorted(doc["paths"].items()):
        for method, op in sorted(ops.items()):
            if "_v1_" in op["operationId"] or "requestBody" not in op:
                continue
            found = {}
            for content in op["requestBody"]["content"].values():
                found |= members(content["schema"])
            line("letta." + op["operationId"], found)
    for name, models in INSIDE.items():
        found = {}
        for model in models:
            if model in schemas:
                found |= schemas[model].get("properties", {})
            elif hasattr(files, model):
                found |= {m: {"type": "string"} for m in getattr(files, model).model_fields}
        line(name, found)


if __name__ == "__main__":
    main()
