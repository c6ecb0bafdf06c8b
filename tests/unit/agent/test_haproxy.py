"""The client of the master CLI against a master played by the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from inference_operator.agent.haproxy import (
    Command,
    CommandError,
    Haproxy,
    ReloadError,
    UnreachableError,
)

PROC = "1 master {reloads} [failed: {failed}] 0d 2.6.12\n# workers\n{pid} worker 0 0d 2.6.12\n"


class Master:
    """Answers one request per connection, as HAProxy does once the client has closed its side."""

    def __init__(self) -> None:
        self.pid, self.failed, self.reloads = 10, 0, 0
        self.accepts = True
        #: Answer to `reload`, or None = the connection just closes (2.6).
        self.reload_answer: str | None = None
        self.replies: dict[str, str] = {}
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        text = (await reader.read()).decode().strip()
        self.asked.append(text)
        writer.write(self.answer(text).encode())
        writer.close()

    def answer(self, text: str) -> str:
        if text == "show proc":
            return PROC.format(reloads=self.reloads, failed=self.failed, pid=self.pid)
        if text == "reload":
            self.reloads += 1
            if self.accepts:
                self.pid, self.failed = self.pid + 1, 0
            else:
                self.failed += 1
            return self.reload_answer or ""
        return self.replies.get(text, "")


@pytest.fixture
async def master(tmp_path: Path) -> AsyncIterator[Master]:
    master = Master()
    server = await asyncio.start_unix_server(master.serve, tmp_path / "master.sock")
    yield master
    server.close()


async def test_commands_go_to_one_worker_and_only_known_replies_are_success(master: Master, tmp_path: Path):
    haproxy = Haproxy(tmp_path / "master.sock")
    await haproxy.execute(10, Command("set server a/b state ready"))
    assert master.asked == ["@!10 set server a/b state ready"]
    master.replies["@!10 add server a/b"] = "New server registered.\n"
    await haproxy.execute(10, Command("add server a/b", frozenset({"New server registered."})))
    master.replies["@!10 set server a/b state up"] = "Unknown keyword.\n"
    with pytest.raises(CommandError, match=r"'set server a/b state up': Unknown keyword"):
        await haproxy.execute(10, Command("set server a/b state up"))


async def test_a_reload_is_done_when_there_is_a_new_worker(master: Master, tmp_path: Path):
    await Haproxy(tmp_path / "master.sock").reload()
    assert master.pid == 11


@pytest.mark.parametrize(
    "answer", [None, "Success=0\n--\n[NOTICE] x\n[ALERT] config : unknown keyword 'nonsense'\n"]
)
async def test_a_refused_reload_says_why_where_haproxy_does(
    master: Master, tmp_path: Path, answer: str | None
):
    master.accepts, master.reload_answer = False, answer
    with pytest.raises(ReloadError, match="unknown keyword 'nonsense'" if answer else "see the log"):
        await Haproxy(tmp_path / "master.sock").reload()


async def test_without_a_master_it_is_unreachable(tmp_path: Path):
    with pytest.raises(UnreachableError, match="Is HAProxy running"):
        await Haproxy(tmp_path / "master.sock").workers()
