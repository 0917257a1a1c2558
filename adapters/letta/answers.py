"""Prints the kinds and routes of answers.txt: what the answers of the Letta
V1 server are made of, from the server's own OpenAPI document, with the
members that the official Python client knows besides.

Run it with a Python in which letta==0.16.8 and letta-client are installed:

    python adapters/letta/answers.py > adapters/letta/answers.txt
"""

import contextlib
import importlib
import inspect
import pkgutil
import sys


def server():
    with contextlib.redirect_stdout(sys.stderr):
        from letta.server.rest_api.app import create_application

        return create_application().openapi()


def client():
    """The client's models by name, as JSON schemas."""
    import pydantic

    import letta_client.types as types

    models = {}
    for info in pkgutil.walk_packages(types.__path__, types.__name__ + "."):
        module = importlib.import_module(info.name)
        for name, cls in inspect.getmembers(module, inspect.isclass):
            if issubclass(cls, pydantic.BaseModel) and cls.__module__.startswith(types.__name__):
                with contextlib.suppress(Exception):
                    models.setdefault(name, cls.model_json_schema(by_alias=True))
    return models


class Printer:
    def __init__(self, schemas):
        self.schemas = schemas
        self.wanted = []

    def spec(self, schema):
        """A schema as one of the table's specs, its alternatives sorted."""
        return "|".join(sorted(self.alternatives(schema))) or "s"

    def alternatives(self, schema):
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            target = self.schemas[name]
            if "properties" not in target:
                return self.alternatives(target)
            if name not in self.wanted:
                self.wanted.append(name)
            return {name}
        for word in ("anyOf", "oneOf", "allOf"):
            if word in schema:
                return set().union(*(self.alternatives(s) for s in schema[word]))
        match schema.get("type"):
            case "array":
                return {"[" + self.spec(schema["items"]) + "]"} if schema.get("items") else {"*"}
            case "object":
                extra = schema.get("additionalProperties")
                return {"{" + self.spec(extra) + "}"} if isinstance(extra, dict) and extra else {"*"}
            case None:
                return {"s"} if "enum" in schema or "const" in schema else {"*"}
        return {"s"}

    def member(self, name, schema):
        if name == "message_type" and "const" in schema:
            return "=" + schema["const"]
        return self.spec(schema)

    def kind(self, name, more):
        schema = self.schemas[name]
        print("kind", name)
        for member, s in sorted(schema["properties"].items()):
            print("\t" + member, self.member(member, s))
        known = more.get(name, {}).get("properties", {})
        if 2 * len(known.keys() & schema["properties"].keys()) < len(schema["properties"]):
            known = {}  # another thing of the same name
        for member, s in sorted(known.items()):
            if member not in schema["properties"]:
                p = Printer(more[name].get("$defs", {}))
                spec = p.spec(s)
                print("\t" + member, "*" if p.wanted else spec)
        if schema.get("additionalProperties"):
            print("\t*", "*")


def main():
    doc, more = server(), client()
    p = Printer(doc["components"]["schemas"])
    routes, events = {}, {}
    for ops in doc["paths"].values():
        for op in ops.values():
            answer = next((op["responses"][c] for c in ("200", "201", "202") if c in op["responses"]), {})
            content = answer.get("content", {})
            if "_v1_" in op["operationId"]:
                continue  # a name that the framework made up; the route has another here
            if schema := content.get("application/json", {}).get("schema"):
                routes["letta." + op["operationId"]] = p.spec(schema)
            if schema := (content.get("text/event-stream") or {}).get("schema"):
                events["letta." + op["operationId"]] = p.spec(schema)
    print("# Written by answers.py. Do not edit; what the server does not say stands in answers_more.txt.")
    for name, spec in sorted(routes.items()):
        print("answer", name, spec)
    for name, spec in sorted(events.items()):
        print("event", name, spec)
    for name in ("AuthResponse", "SandboxConfig", "SandboxEnvironmentVariable"):
        p.wanted.append(name)  # answers_more.txt names them
    done = 0
    while done < len(p.wanted):  # a kind may name others
        for schema in p.schemas[p.wanted[done]]["properties"].values():
            p.spec(schema)
        done += 1
    for name in sorted(p.wanted):
        p.kind(name, more)


if __name__ == "__main__":
    main()
