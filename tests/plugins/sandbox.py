"""The fixture `sandbox`: one running sandbox for the whole test session, stopped at its end.

A conftest.py takes it over with `from tests.plugins.sandbox import sandbox`. Several may: they share it.
"""

import os
import shutil
from pathlib import Path

import pytest

from sandbox.client import Sandbox

_RUNNING = pytest.StashKey[Sandbox]()


@pytest.fixture(scope="session")
def sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """A ready sandbox with three GPU nodes and two others; tests keep apart by namespace."""
    config, session = request.config, request.session
    if _RUNNING not in config.stash:
        box = Sandbox(f"pytest-{os.getpid()}")
        box.up(die_with_parent=True)
        config.stash[_RUNNING] = box
        logs = tmp_path_factory.mktemp("sandbox")
        # Not the fixture's own teardown: each conftest that imports the fixture registers another copy of it.
        config.add_cleanup(lambda: _stop(box, logs if session.testsfailed else None))
    return config.stash[_RUNNING]


def _stop(box: Sandbox, logs: Path | None) -> None:
    box.down(keep_logs=True)
    if logs:  # pytest keeps the folders of the last three sessions
        shutil.copytree(box.state.path, logs, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
        print(f"\nlogs of the sandbox: {logs}")
    box.down()
