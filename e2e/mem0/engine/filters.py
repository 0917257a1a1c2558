"""The hosted platform's filter grammar, evaluated over stored memories.

The engine's own grammar is a different, smaller one, so the hosted dialect
cannot hand filters through. Quirks that a gate has to survive are kept on
purpose: siblings are ANDed, an OR beside an AND is silently dropped, "*" means
"has any value", and unknown keys are errors.
"""

from datetime import datetime, timezone

ENTITY_KEYS = ("user_id", "agent_id", "app_id", "run_id")
TIME_KEYS = ("created_at", "updated_at", "timestamp", "expiration_date")
_COMPARE = {
    "gt": lambda a, b: a > b,
    "gte": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "lte": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


class FilterError(ValueError):
    """The filter is not in the grammar; the dialect answers 400."""


def matches(node, memory):
    """Tell whether a memory (in the hosted shape) passes a filter."""
    if not node:
        return True
    if not isinstance(node, dict):
        raise FilterError("filters must be an object")
    results = []
    for key, value in node.items():
        if key == "AND":
            results.append(all([matches(item, memory) for item in _list(key, value)]))
        elif key == "OR":
            if "AND" in node:
                continue
            results.append(any([matches(item, memory) for item in _list(key, value)]))
        elif key == "NOT":
            items = value if isinstance(value, list) else [value]
            results.append(not any([matches(item, memory) for item in items]))
        else:
            results.append(_field(key, value, memory))
    return all(results)


def check(node):
    """Raise FilterError for a filter that no memory could be tested against."""
    matches(node, {"memory": "", "metadata": {}, "id": ""})


def required_scope(node):
    """Entity ids that every match must have, to narrow the engine's own search."""
    scope = {}
    for key, value in (node or {}).items():
        if key in ("user_id", "agent_id", "run_id") and isinstance(value, str) and value != "*":
            scope[key] = value
        elif key == "AND":
            for item in value:
                scope.update(required_scope(item))
    return scope


def _list(key, value):
    if not isinstance(value, list):
        raise FilterError(f"{key} must be a list")
    return value


def _field(key, condition, memory):
    if key in ENTITY_KEYS:
        return _entity(key, condition, memory.get(key))
    if key in TIME_KEYS:
        return _time(key, condition, memory.get("created_at" if key == "timestamp" else key))
    if key == "metadata":
        if not isinstance(condition, dict):
            raise FilterError("metadata filter must be an object")
        stored = memory.get("metadata") or {}
        return all([_metadata(name, want, stored.get(name)) for name, want in condition.items()])
    if key in ("keywords", "keywords_search", "text"):
        return _text(key, condition, memory.get("memory") or "")
    if key == "memory_ids":
        wanted = condition.get("in", []) if isinstance(condition, dict) else condition
        return memory.get("id") in _list(key, wanted)
    if key == "categories":
        have = memory.get("categories") or []
        wanted = condition if isinstance(condition, dict) else {"in": condition}
        if "contains" in wanted:
            return wanted["contains"] in have
        return any([item in have for item in _list(key, wanted.get("in"))])
    raise FilterError(f"unsupported filter field: {key}")


def _entity(key, condition, have):
    if isinstance(condition, dict):
        results = []
        for operator, value in condition.items():
            if operator == "in":
                results.append(have in _list(key, value))
            elif operator == "eq":
                results.append(have == value)
            elif operator == "ne":
                results.append(have != value)
            else:
                raise FilterError(f"unsupported operator for {key}: {operator}")
        return all(results)
    if condition == "*":
        return have is not None
    return have == condition


def _metadata(name, condition, have):
    if not isinstance(condition, dict):
        return have == condition
    results = []
    for operator, value in condition.items():
        if operator == "eq":
            results.append(have == value)
        elif operator == "ne":
            results.append(have != value)
        elif operator == "contains":
            results.append(have is not None and value in have)
        else:
            raise FilterError(f"unsupported metadata operator for {name}: {operator}")
    return all(results)


def _text(key, condition, text):
    if isinstance(condition, dict):
        if "contains" in condition:
            return condition["contains"] in text
        if "icontains" in condition:
            return condition["icontains"].lower() in text.lower()
        raise FilterError(f"unsupported operator for {key}")
    return str(condition).lower() in text.lower()


def _time(key, condition, have):
    if condition == "*":
        return have is not None
    conditions = condition if isinstance(condition, dict) else {"eq": condition}
    results = []
    for operator, value in conditions.items():
        if operator == "in":
            results.append(have is not None and _moment(have) in [_moment(v) for v in _list(key, value)])
        elif operator in _COMPARE:
            results.append(have is not None and _COMPARE[operator](_moment(have), _moment(value)))
        else:
            raise FilterError(f"unsupported operator for {key}: {operator}")
    return all(results)


def _moment(value):
    try:
        if isinstance(value, (int, float)):
            return datetime.fromtimestamp(value, timezone.utc)
        moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError as error:
        raise FilterError(f"not a date: {value}") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
