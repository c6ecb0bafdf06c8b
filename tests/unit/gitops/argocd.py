"""Argo CD's Lua, run as Argo CD runs it: Lua 5.1 with nothing but the base and table libraries.

gopher-lua itself is Go; lupa's lua51 is the reference implementation of the same language. What Argo CD
doesn't load is taken away, so a script that leans on it fails here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lupa import lua51

FOLDER = Path(__file__).parents[3] / "manifests" / "argocd"
HEALTH = FOLDER / "health.lua"

Json = dict[str, Any]

_TAKEN_AWAY = """
for _, name in ipairs({"os", "io", "string", "math", "debug", "coroutine", "package", "require", "module",
                       "load", "loadstring", "loadfile", "dofile", "python"}) do
  _G[name] = nil
end
getmetatable("").__index = nil
"""


def execute(script: str, obj: Mapping[str, Any]) -> Any:
    """What a script returns, with `obj` as its global. Raises lua51.LuaError."""
    lua = lua51.LuaRuntime(register_eval=False, register_builtins=False, unpack_returned_tuples=True)
    lua.execute(_TAKEN_AWAY)
    lua.globals()["obj"] = _to_lua(lua, obj)
    return _from_lua(lua.execute(script))


def health(obj: Mapping[str, Any]) -> tuple[str, str]:
    """Argo CD's word and its message."""
    result = execute(HEALTH.read_text(encoding="utf-8"), obj)
    assert result.keys() == {"status", "message"}
    return result["status"], result["message"]


def offered(obj: Mapping[str, Any]) -> Json:
    """Name of an action -> what discovery says of it."""
    found: Json = execute((FOLDER / "actions" / "discovery.lua").read_text(encoding="utf-8"), obj)
    return found


def act(action: str, obj: Mapping[str, Any]) -> Json:
    """The object as the action leaves it."""
    made: Json = execute((FOLDER / "actions" / action / "action.lua").read_text(encoding="utf-8"), obj)
    return made


def _to_lua(lua: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return lua.table_from({key: _to_lua(lua, item) for key, item in value.items()})
    if isinstance(value, list):
        return lua.table_from([_to_lua(lua, item) for item in value])
    return value


def _from_lua(value: Any) -> Any:
    """Tables with 1 as a key are lists, as Argo CD's JSON encoder has it; an empty one could be either."""
    if lua51.lua_type(value) != "table":
        return value
    items = {key: _from_lua(item) for key, item in value.items()}
    return [items[number] for number in range(1, len(items) + 1)] if 1 in items else items
