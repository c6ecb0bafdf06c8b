"""A container's log file: runs apart, bounded, read from any point, followed; and kubectl's exit status."""

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sandbox import logview
from sandbox.kubelet import exec as exec_session
from sandbox.kubelet import logs, procfs
from sandbox.kubelet.logs import ContainerLog


def test_each_run_has_a_file_and_the_one_before_is_kept(tmp_path: Path) -> None:
    log = ContainerLog(tmp_path / "main.log")
    for run in ("first", "second", "third"):
        log.begin_run()
        log.path.write_text(run)
    assert (log.path.read_text(), log.previous.read_text()) == ("third", "second")
    assert {path.name for path in tmp_path.iterdir()} == {"main.log", "main.log.previous"}


def test_log_is_bounded_while_it_is_being_written(tmp_path: Path) -> None:
    log = ContainerLog(tmp_path / "main.log")
    with log.path.open("ab", buffering=0) as writer:
        writer.write(b"x" * 100)
        log.bound(limit=100)
        assert log.path.stat().st_size == 100
        writer.write(b"y")
        log.bound(limit=100)
        writer.write(b"z")
    assert log.path.read_bytes() == b"z"
    assert (tmp_path / "main.log.1").read_bytes() == b"x" * 100 + b"y"


@pytest.mark.parametrize(
    ("text", "lines", "shown"),
    [("a\nb\nc\n", 1, "c\n"), ("a\nb\nc", 2, "b\nc"), ("a\nb\n", 5, "a\nb\n"), ("a\n", 0, ""), ("", 3, "")],
)
def test_last_lines(tmp_path: Path, text: str, lines: int, shown: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    assert text[logs.last_lines(path, lines, len(text)) :] == shown
    path.write_text(text + "\nlater\n")
    assert text[logs.last_lines(path, lines, len(text)) :] == shown


def test_marks_tell_what_was_written_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ContainerLog(tmp_path / "main.log")
    log.begin_run()
    with log.path.open("a") as writer:
        for second, text in ((10, "one\n"), (13, "two\nhal"), (16, "f\n")):
            writer.write(text)
            writer.flush()
            monkeypatch.setattr(time, "time", lambda second=second: float(second))
            log.mark()
    text = log.path.read_text()
    assert [text[log.since(at) :] for at in (9, 10, 12.9, 13, 99)] == [
        "one\ntwo\nhalf\n",
        "two\nhalf\n",
        "two\nhalf\n",
        "half\n",
        "",
    ]


async def test_reading_follows_until_it_is_over_and_misses_no_word(tmp_path: Path) -> None:
    log = ContainerLog(tmp_path / "main.log")
    log.begin_run()
    log.path.write_text("old\nfirst\n")
    over, seen, first = False, [], asyncio.Event()

    async def collect() -> None:
        async for chunk in logs.read(log.path, 4, lambda: over):
            seen.append(chunk)
            first.set()

    reading = asyncio.create_task(collect())
    await asyncio.wait_for(first.wait(), 5)
    with log.path.open("a") as writer:
        writer.write("last\n")
    over = True
    log.begin_run()  # the next run: not part of this one
    log.path.write_text("next\n")
    await asyncio.wait_for(reading, 5)
    assert b"".join(seen) == b"first\nlast\n"


def test_the_command_line_follows_over_restarts(tmp_path: Path) -> None:
    log = ContainerLog(tmp_path / "main.log")
    log.begin_run()
    log.path.write_text("shown\n")
    shown, end = logview.last_lines(log.path, 0)
    runs = True
    seen = []

    def collect() -> None:
        seen.extend(logview.follow(log.path, end, lambda: runs))

    following = threading.Thread(target=collect)
    following.start()

    def until_seen(word: str) -> None:
        deadline = time.monotonic() + 5
        while word not in "".join(seen) and time.monotonic() < deadline:
            time.sleep(0.02)

    with log.path.open("a") as writer:
        writer.write("dying\n")
    until_seen("dying")
    log.begin_run()
    log.path.write_text("born\n")
    until_seen("born")
    runs = False
    following.join(5)
    assert (shown, "".join(seen)) == ("shown", "dying\nborn\n")


def test_exit_status_is_what_kubectl_reads() -> None:
    assert exec_session.exit_status(0)["status"] == "Success"
    failed = exec_session.exit_status(7)
    assert (failed["reason"], failed["details"]["causes"]) == (
        "NonZeroExitCode",
        [{"reason": "ExitCode", "message": "7"}],
    )


def test_descendants_are_killed_and_the_process_itself_goes_on() -> None:
    script = "sh -c 'sleep 100 & echo $!; wait' & echo $!; wait; echo over"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(parent.stdout.readline()) for _ in range(2)]
        procfs.kill_descendants(parent.pid)
        assert parent.stdout.read() == "over\n"
        assert parent.wait(5) == 0
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}/exe").exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_stopped_processes_are_told_from_running_ones() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert procfs.stopped([process.pid]) == set()
        process.send_signal(19)
        deadline = time.monotonic() + 5
        while procfs.stopped([process.pid, 1 << 30]) != {process.pid}:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
