"""tools/gen_gitops.py: nothing is forgotten, and what it writes is what lies there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from inference_operator.api.conditions import REASONS, ConditionType, Reason
from tools.gen_gitops import HEALTH, ROOT, UnnamedReason, check_named, files, flux_clusters

from .argocd import FOLDER


@pytest.mark.parametrize("name", files())
def test_generated_files_are_what_their_source_says(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == files()[name], "run `make generate`"


@pytest.mark.parametrize("kind", [ConditionType.READY, ConditionType.STALLED, ConditionType.RECONCILING])
@pytest.mark.parametrize("status", ["True", "False"])
def test_a_new_reason_is_refused_until_it_has_a_meaning(kind: ConditionType, status: str) -> None:
    # QuotaExceeded is of another condition.
    by_status = {**REASONS[kind], status: (*REASONS[kind][status], Reason.QUOTA_EXCEEDED)}
    with pytest.raises(UnnamedReason, match=f"{kind.value} {status} QuotaExceeded"):
        check_named(HEALTH, {**REASONS, kind: by_status})


def test_a_reason_that_is_gone_is_refused() -> None:
    by_status: Mapping[str, Any] = {**REASONS[ConditionType.READY], "True": (Reason.SERVING, Reason.SCALING)}
    with pytest.raises(UnnamedReason, match="Ready True Degraded"):
        check_named(HEALTH, {**REASONS, ConditionType.READY: by_status})


def test_a_flux_file_without_the_mark_is_refused() -> None:
    """Else a removed line would leave old expressions in force for ever."""
    with pytest.raises(ValueError, match="lacks the line"):
        flux_clusters("spec:\n  wait: true\n")


def test_the_config_map_holds_the_lua_files_as_they_are() -> None:
    data = yaml.safe_load((FOLDER / "argocd-cm.yaml").read_text(encoding="utf-8"))["data"]
    key = "inferencecluster.io_InferenceCluster"
    assert data[f"resource.customizations.health.{key}"] == (FOLDER / "health.lua").read_text(
        encoding="utf-8"
    )
    actions = yaml.safe_load(data[f"resource.customizations.actions.{key}"])
    assert actions.keys() == {"discovery.lua", "definitions"}
    assert actions["discovery.lua"] == (FOLDER / "actions" / "discovery.lua").read_text(encoding="utf-8")
    assert {made["name"]: made["action.lua"] for made in actions["definitions"]} == {
        path.parent.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("actions/*/action.lua")
    }
    ignored = yaml.safe_load(data[f"resource.customizations.ignoreDifferences.{key}"])
    assert ignored == {"jsonPointers": ["/spec/replicas"]}
