"""The fixture `sandbox`: one running sandbox for the whole test session, stopped at its end.

A conftest.py takes it over with `from tests.plugins.sandbox import sandbox`. Several may: they share it.
"""

import os

import pytest

from sandbox.client import Sandbox

_RUNNING = pytest.StashKey[Sandbox]()


@pytest.fixture(scope="session")
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """A ready sandbox with three GPU nodes and two others; tests keep apart by namespace."""
    config, session = request.config, request.session
    if _RUNNING not in config.stash:
        box = Sandbox(f"pytest-{os.getpid()}")
        box.up(die_with_parent=True)
        config.stash[_RUNNING] = box
        # Not the fixture's own teardown: each conftest that imports the fixture registers another copy of it.
        config.add_cleanup(lambda: box.down(keep_logs=session.testsfailed > 0) and None)
    return config.stash[_RUNNING]
