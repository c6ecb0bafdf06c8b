"""Write crds/inferenceclusters.yaml from the models; with --check compare and exit 1 on a difference."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "operator" / "src"))

from inference_operator.api.schema import custom_resource_definition  # noqa: E402

TARGET = "crds/inferenceclusters.yaml"
HEADER = "# Generated from operator/src/inference_operator/api by `make generate`. Do not edit.\n"


class _Dumper(yaml.SafeDumper):
    """Every value is written out: some readers of CRDs know no YAML anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def render() -> str:
    """The file's text; equal models give equal text."""
    crd = custom_resource_definition()
    return HEADER + yaml.dump(crd, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


def write_or_check(files: dict[str, str], check: bool) -> int:
    """Write files (path below the root -> text), or print how the committed ones differ and return 1."""
    status = 0
    for name, text in files.items():
        path = ROOT / name
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            continue
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old != text:
            diff = difflib.unified_diff(
                old.splitlines(True), text.splitlines(True), name, f"{name} (generated)"
            )
            sys.stdout.writelines(diff)
            print(f"{name} is not what its source says: run `make generate`", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(write_or_check({TARGET: render()}, "--check" in sys.argv[1:]))
