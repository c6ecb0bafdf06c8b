"""Write what GitOps tools need to judge an InferenceCluster; with --check compare and exit 1 on a difference.

One table, `HEALTH`, says what each reason of Ready, Stalled and Reconciling means to somebody who waits for a
sync. From it come Argo CD's health check (Lua), the ConfigMap that installs it together with the actions, and
Flux's health check expressions (CEL). A reason without a meaning is an error here, so none can be forgotten.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from string import Template
from textwrap import indent
from typing import Any, Final

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "operator" / "src"))
sys.path.insert(0, str(ROOT))

from inference_operator.api.conditions import REASONS, ConditionType, Reason  # noqa: E402
from inference_operator.api.names import API_VERSION, GROUP, KIND  # noqa: E402
from tools.gen_crd import write_or_check  # noqa: E402

ARGOCD = "manifests/argocd"
ACTIONS = ("suspend", "resume")
_SOURCE = "Made from operator/src/inference_operator/api/conditions.py by `make generate`. Do not edit."


class Health(StrEnum):
    """Argo CD's words. Flux has two fewer: Healthy and Suspended are current, Degraded is failed."""

    HEALTHY = "Healthy"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    SUSPENDED = "Suspended"


Meanings = Mapping[Reason, Health | None]

#: What a reason means; None = it decides nothing. Asked in this order: Stalled, Ready where it is True,
#: Reconciling, Ready. So what waits for a person is never hidden, and what serves is healthy with engines
#: missing.
HEALTH: Final[Mapping[ConditionType, Mapping[str, Meanings]]] = {
    ConditionType.STALLED: {
        "True": {
            Reason.SPEC_INVALID: Health.DEGRADED,
            Reason.LOAD_TIMEOUT: Health.DEGRADED,
            Reason.CRASH_LOOP: Health.DEGRADED,
            Reason.IMAGE_PULL: Health.DEGRADED,
            Reason.CONTAINER_CONFIG: Health.DEGRADED,
            Reason.APPLY_FAILED: Health.DEGRADED,
            Reason.MISSING_OBJECT: Health.DEGRADED,
            Reason.CREATE_FAILED: Health.DEGRADED,
        },
        "False": {Reason.NOT_STALLED: None},
        "Unknown": {Reason.NOT_OBSERVED: None},
    },
    ConditionType.READY: {
        "True": {
            Reason.SERVING: Health.HEALTHY,
            Reason.SCALING: Health.HEALTHY,
            Reason.DEGRADED: Health.HEALTHY,
        },
        "False": {
            Reason.PROGRESSING: Health.PROGRESSING,
            Reason.STOPPED: Health.SUSPENDED,
            Reason.INVALID: Health.DEGRADED,
            Reason.UNAVAILABLE: Health.DEGRADED,
            Reason.SUSPENDED: Health.SUSPENDED,
            Reason.DELETING: Health.PROGRESSING,
        },
        "Unknown": {Reason.NOT_OBSERVED: Health.PROGRESSING},
    },
    ConditionType.RECONCILING: {
        "True": {
            Reason.FIRST_CREATION: Health.PROGRESSING,
            Reason.ROLLING_OUT: Health.PROGRESSING,
        },
        "False": {Reason.SETTLED: None, Reason.FIRST_CREATION: None},
        "Unknown": {Reason.NOT_OBSERVED: None},
    },
}

#: What the message of a healthy cluster says too: it serves, and yet somebody should know.
WORTH_TELLING: Final[Mapping[ConditionType, tuple[Reason, ...]]] = {
    ConditionType.CAPACITY_AVAILABLE: REASONS[ConditionType.CAPACITY_AVAILABLE]["False"],
    ConditionType.SCALING_ACTIVE: (Reason.CONFLICT, Reason.METRICS_UNAVAILABLE),
}


class UnnamedReason(ValueError):
    """`HEALTH` doesn't name exactly the reasons that the API has."""


def check_named(
    health: Mapping[ConditionType, Mapping[str, Meanings]],
    reasons: Mapping[ConditionType, Mapping[str, tuple[Reason, ...]]],
) -> None:
    """Raise UnnamedReason for a reason without a meaning and for a meaning without a reason."""
    wrong = [
        f"{kind.value} {status} {reason.value}"
        for kind, named in health.items()
        for status in reasons[kind].keys() | named.keys()
        for reason in set(reasons[kind].get(status, ())) ^ set(named.get(status, {}))
    ]
    if wrong:
        raise UnnamedReason(
            "HEALTH in tools/gen_gitops.py and REASONS in api/conditions.py differ in "
            f"{', '.join(sorted(wrong))}: HEALTH has to say what each reason means to GitOps tools"
        )


def otherwise(meanings: Meanings) -> Health | None:
    """What a reason means that isn't named, i.e. one of a newer operator: the same as all that are, else
    Progressing, which neither waves a sync through nor fails it."""
    found = set(meanings.values())
    return found.pop() if len(found) == 1 else Health.PROGRESSING


# --- Argo CD ---

_LUA = Template("""\
-- $source
-- Argo CD's verdict on an InferenceCluster. It runs in gopher-lua (Lua 5.1) without the string library.

-- condition -> status -> reason -> health
local HEALTH = {
$health}

-- What the message of a healthy cluster says too.
local WORTH_TELLING = {
$telling}

local status = obj.status or {}

local function condition(name)
  for _, found in ipairs(status.conditions or {}) do
    if found.type == name then
      return found
    end
  end
  return {}
end

local function health(name)
  local found = condition(name)
  local meanings = HEALTH[name][found.status] or {}
  -- A reason that isn't named comes from a newer operator.
  return meanings[found.reason or ""] or meanings.otherwise, found
end

local function told(found, word)
  local reason, message = found.reason or "NotObserved", found.message or ""
  if message == "" then
    return reason
  end
  -- Argo CD shows the word beside the message.
  return reason == word and message or reason .. ": " .. message
end

local function told_of_healthy(ready)
  local texts = { told(ready) }
  local lost = condition("Degraded")
  if ready.reason == "Degraded" and lost.status == "True" then
    -- Says why as well.
    texts = { "Degraded: " .. (lost.message or "") }
  end
  for _, one in ipairs(WORTH_TELLING) do
    local found = condition(one.type)
    if found.status == "False" and one.reasons[found.reason or ""] then
      table.insert(texts, told(found))
    end
  end
  return table.concat(texts, "; ")
end

local function verdict()
  local stalled, stall = health("Stalled")
  local ready, readiness = health("Ready")
  local reconciling, change = health("Reconciling")
  if obj.metadata.deletionTimestamp ~= nil then
    return "Progressing", readiness.reason == "Deleting" and told(readiness) or "Being deleted"
  end
  -- Older, or newer after a restore from a backup: either way the status is of another spec.
  if status.observedGeneration ~= obj.metadata.generation then
    return "Progressing", "The operator hasn't looked at generation " ..
      tostring(obj.metadata.generation) .. " yet; if it stays so, see whether it runs"
  end
  if obj.spec.suspend == true then
    return "Suspended", told(readiness, "Suspended")
  end
  if stalled ~= nil then
    return stalled, told(stall, stalled)
  end
  if ready == "Healthy" then
    return ready, told_of_healthy(readiness)
  end
  if reconciling ~= nil then
    return reconciling, told(readiness.status == "False" and readiness or change, reconciling)
  end
  ready = ready or "Progressing"
  return ready, told(readiness, ready)
end

local word, text = verdict()
return { status = word, message = text }
""")


def health_lua() -> str:
    """Argo CD's health check."""
    return _LUA.substitute(
        source=_SOURCE, health="".join(_lua_meanings()), telling="".join(_lua_worth_telling())
    )


def _lua_meanings() -> Iterator[str]:
    for kind, by_status in HEALTH.items():
        yield f"  {kind.value} = {{\n"
        for status, meanings in by_status.items():
            words = {reason.value: health for reason, health in meanings.items() if health}
            words |= {"otherwise": other} if (other := otherwise(meanings)) else {}
            if words:
                yield f"    {status} = {{\n"
                yield from (f'      {reason} = "{health.value}",\n' for reason, health in words.items())
                yield "    },\n"
        yield "  },\n"


def _lua_worth_telling() -> Iterator[str]:
    for kind, reasons in WORTH_TELLING.items():
        words = ", ".join(f"{reason.value} = true" for reason in reasons)
        yield f'  {{ type = "{kind.value}", reasons = {{ {words} }} }},\n'


class _Text(str):
    """Several lines, written as they are."""


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(
    _Text, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, "|")
)


def _dump(document: Mapping[str, Any]) -> str:
    # Lines stay whole: a folded Lua line would not be the file's any more.
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000)


def argocd_cm(health: str, discovery: str, actions: Mapping[str, str]) -> str:
    """Keys for the ConfigMap argocd-cm, from the Lua files."""
    definitions = [{"name": name, "action.lua": _Text(text)} for name, text in actions.items()]
    key = f"{GROUP}_{KIND}"
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "argocd-cm",
            "namespace": "argocd",
            # Argo CD reads its ConfigMaps by this label.
            "labels": {"app.kubernetes.io/part-of": "argocd"},
        },
        "data": {
            f"resource.customizations.health.{key}": _Text(health),
            f"resource.customizations.actions.{key}": _Text(
                _dump({"discovery.lua": _Text(discovery), "definitions": definitions})
            ),
            f"resource.customizations.ignoreDifferences.{key}": _Text(
                _dump({"jsonPointers": ["/spec/replicas"]})
            ),
        },
    }
    head = "# Made from health.lua and actions/ by `make generate`. Do not edit.\n"
    usage = f"# kubectl apply --server-side --field-manager={GROUP} -f {ARGOCD}/argocd-cm.yaml\n"
    return head + usage + _dump(config)


# --- Flux ---

_FLUX = "manifests/flux/clusters.yaml"
#: What stands behind this line is generated, what stands before it isn't.
_FLUX_MARK = "  # From here on made by `make generate`; it stays the last part.\n"
_FLUX_CHECKS = Template("""\
  healthCheckExprs:
    - apiVersion: $api_version
      kind: $kind
      inProgress: |-
$in_progress
      failed: |-
$failed
      current: |-
$current
""")


def cel() -> dict[str, str]:
    """Flux's `inProgress`, `failed` and `current`. They say what health_lua says, in the order of Flux."""
    suspended = "(has(spec.suspend) && spec.suspend)"
    changing = f"!({_any(ConditionType.RECONCILING, Health.PROGRESSING)})"
    lasting = _any(ConditionType.READY, Health.SUSPENDED)
    return {
        "inProgress": (
            "has(metadata.deletionTimestamp) || !has(status.conditions) ||\n"
            "!has(status.observedGeneration) || status.observedGeneration != metadata.generation"
        ),
        "failed": (
            f"!{suspended} &&\n({_any(ConditionType.STALLED, Health.DEGRADED)} ||\n"
            f"{_any(ConditionType.READY, Health.DEGRADED)} &&\n{changing})"
        ),
        "current": (
            f"{suspended} ||\n{_any(ConditionType.READY, Health.HEALTHY)} ||\n{lasting} &&\n{changing}"
        ),
    }


def _any(kind: ConditionType, want: Health) -> str:
    """Is this condition there, with a status and a reason that mean `want`?"""
    cases = []
    for status, meanings in HEALTH[kind].items():
        named = [f"'{reason.value}'" for reason, health in meanings.items() if health is want]
        if otherwise(meanings) is want and len(named) == len(meanings):
            cases.append(f"c.status == '{status}'")
        elif named:
            cases.append(f"c.status == '{status}' && c.reason in [{', '.join(named)}]")
    inner = cases[0] if len(cases) == 1 else f"({' || '.join(cases)})"
    return f"status.conditions.exists(c, c.type == '{kind.value}' && {inner})"


def flux_clusters(text: str) -> str:
    """The file with a Flux Kustomization, with today's expressions. Raises ValueError without the mark."""
    head, mark, _ = text.partition(_FLUX_MARK)
    if not mark:
        raise ValueError(f"{_FLUX} lacks the line {_FLUX_MARK.strip()!r}: put it before healthCheckExprs")
    expressions = {name: indent(part, 8 * " ") for name, part in cel().items()}
    checks = _FLUX_CHECKS.substitute(
        kind=KIND,
        api_version=API_VERSION,
        in_progress=expressions["inProgress"],
        failed=expressions["failed"],
        current=expressions["current"],
    )
    return head + mark + checks


def files() -> dict[str, str]:
    """Path below the root -> text. Raises UnnamedReason."""
    check_named(HEALTH, REASONS)
    folder = ROOT / ARGOCD / "actions"
    discovery = (folder / "discovery.lua").read_text(encoding="utf-8")
    actions = {name: (folder / name / "action.lua").read_text(encoding="utf-8") for name in ACTIONS}
    health = health_lua()
    return {
        f"{ARGOCD}/health.lua": health,
        f"{ARGOCD}/argocd-cm.yaml": argocd_cm(health, discovery, actions),
        _FLUX: flux_clusters((ROOT / _FLUX).read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    sys.exit(write_or_check(files(), "--check" in sys.argv[1:]))
