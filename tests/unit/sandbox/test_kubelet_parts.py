"""Small parts of the kubelet: images, GPU devices, volume files, probes, back-off, grace, logs."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from sandbox import images
from sandbox.images import ImageError
from sandbox.kubelet import payload, probes, procfs, timing
from sandbox.kubelet.gpus import AdmissionError, Gpus

JSON = dict[str, Any]


# --- images ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("vllm/vllm-openai:v0.32.0", "vllm"),
        ("docker.io/vllm/vllm-openai-rocm:nightly", "vllm"),
        ("haproxy", "haproxy"),
        ("docker.io/library/haproxy:3.2@sha256:" + "0" * 64, "haproxy"),
        ("ghcr.io/inferencecluster/inference-operator:0.1.0", "operator"),
        ("busybox:1.37", "tools"),
    ],
)
def test_image_is_found_by_repository(reference: str, name: str) -> None:
    assert images.find_image(reference).name == name


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("haproxytech/haproxy-alpine:3.2", "ErrImagePull"),
        ("registry.example:5000/vllm/vllm-openai", "ErrImagePull"),
        ("haproxy:3.2-broken", "ErrImagePull"),
        ("Haproxy:3.2", "InvalidImageName"),
        ("haproxy:bad tag", "InvalidImageName"),
        ("", "InvalidImageName"),
    ],
)
def test_image_that_is_not_there(reference: str, reason: str) -> None:
    with pytest.raises(ImageError) as error:
        images.find_image(reference)
    assert error.value.reason == reason


def test_launchers_are_executable(tmp_path: Path) -> None:
    images.write_launchers(tmp_path)
    for image in images.IMAGES.values():
        for name in image.launchers:
            assert os.access(tmp_path / image.name / "bin" / name, os.X_OK)


# --- GPUs --------------------------------------------------------------------------------------------------


def gpu_pod(uid: str, *counts: int, inits: tuple[JSON, ...] = ()) -> JSON:
    containers = [gpu_container(f"c{index}", count) for index, count in enumerate(counts)]
    return {"metadata": {"uid": uid}, "spec": {"containers": containers, "initContainers": list(inits)}}


def gpu_container(name: str, count: int, **more: Any) -> JSON:
    return {"name": name, "resources": {"limits": {"nvidia.com/gpu": str(count)}}, **more}


def test_devices_are_exclusive_until_released() -> None:
    gpus = Gpus("gpu-0", 4)
    first, second = gpus.allocate(gpu_pod("a", 2)), gpus.allocate(gpu_pod("b", 1, 1))
    given = first["c0"] + second["c0"] + second["c1"]
    assert len(given) == len(set(given)) == 4
    with pytest.raises(AdmissionError, match="Requested: 1, Available: 0") as error:
        gpus.allocate(gpu_pod("c", 1))
    assert error.value.reason == "UnexpectedAdmissionError"
    gpus.release("a")
    assert sorted(gpus.allocate(gpu_pod("c", 2))["c0"]) == sorted(first["c0"])


def test_init_containers_share_and_sidecars_do_not() -> None:
    gpus = Gpus("gpu-0", 4)
    sidecar = gpu_container("sidecar", 1, restartPolicy="Always")
    shares = gpus.allocate(gpu_pod("a", 2, inits=(gpu_container("init", 4), sidecar)))
    assert len(shares["init"]) == 4
    assert set(shares["init"]) > set(shares["c0"]) | set(shares["sidecar"])
    assert not set(shares["c0"]) & set(shares["sidecar"])


def test_pod_without_gpus_needs_none() -> None:
    assert Gpus("cpu-0", 0).allocate(gpu_pod("a", 0)) == {"c0": []}


def test_devices_keep_their_names_over_restarts() -> None:
    assert Gpus("gpu-0", 1).allocate(gpu_pod("a", 1)) == Gpus("gpu-0", 1).allocate(gpu_pod("b", 1))
    assert Gpus("gpu-0", 1).allocate(gpu_pod("a", 1)) != Gpus("gpu-1", 1).allocate(gpu_pod("a", 1))


# --- volumes -----------------------------------------------------------------------------------------------


def test_update_switches_all_files_in_one_step(tmp_path: Path) -> None:
    assert payload.write(tmp_path, {"a": (b"1", 0o644), "deep/b": (b"2", 0o400)})
    first = (tmp_path / "..data").readlink()
    assert (tmp_path / "a").readlink() == Path("..data/a")
    assert (tmp_path / "deep" / "b").read_bytes() == b"2"
    assert (tmp_path / "deep" / "b").stat().st_mode & 0o777 == 0o400
    assert not payload.write(tmp_path, {"a": (b"1", 0o644), "deep/b": (b"2", 0o400)})
    assert payload.write(tmp_path, {"c": (b"3", 0o644)})
    assert {path.name for path in tmp_path.iterdir()} == {
        "..data",
        str((tmp_path / "..data").readlink()),
        "c",
    }
    assert (tmp_path / "..data").readlink() != first


def test_items_choose_and_rename_keys() -> None:
    config = {"metadata": {"name": "cm"}, "data": {"a": "1", "b": "2"}, "binaryData": {"z": "AAE="}}
    every = payload.object_files("configmaps", config, {}, 0o644)
    assert every == {"a": (b"1", 0o644), "b": (b"2", 0o644), "z": (b"\x00\x01", 0o644)}
    chosen = {"items": [{"key": "a", "path": "sub/x", "mode": 0o600}]}
    assert payload.object_files("configmaps", config, chosen, 0o644) == {"sub/x": (b"1", 0o600)}
    missing = {"items": [{"key": "none", "path": "x"}]}
    with pytest.raises(payload.MissingKey, match="no key 'none'"):
        payload.object_files("configmaps", config, missing, 0o644)
    assert payload.object_files("configmaps", config, missing | {"optional": True}, 0o644) == {}


@pytest.mark.parametrize(
    ("mode", "root", "fs_group", "expected"),
    [
        (0o400, True, False, 0o400),
        (0o400, False, False, 0o000),  # root's file, and nobody else may read it
        (0o400, False, True, 0o440),
        (0o644, False, False, 0o444),
        (0o755, False, True, 0o555),
    ],
)
def test_modes_allow_what_they_would_on_a_node(mode: int, root: bool, fs_group: bool, expected: int) -> None:
    assert payload.mode_for(mode, root=root, fs_group=fs_group) == expected


# --- probes ------------------------------------------------------------------------------------------------


def test_probe_defaults_are_those_of_kubernetes() -> None:
    assert probes.Timing.of({}) == probes.Timing(0, 10, 1, 1, 3)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ("++", [True, True]),
        ("---+", [None, None, False, True]),
        ("--+--", [None, None, True, None, None]),
        ("----", [None, None, False, False]),
    ],
)
def test_thresholds(answers: str, expected: list[bool | None]) -> None:
    counter = probes.Counter(probes.Timing.of({}))
    assert [counter.record(answer == "+") for answer in answers] == expected


def test_success_threshold() -> None:
    counter = probes.Counter(probes.Timing.of({"successThreshold": 2, "failureThreshold": 1}))
    assert [counter.record(each) for each in (True, True, False, True, True)] == [
        None,
        True,
        False,
        None,
        True,
    ]


async def test_probing_tells_the_first_failure_of_each_run() -> None:
    answers = iter([True, False, False, True, False])
    told: list[str] = []

    async def check(seconds: float) -> tuple[bool, str]:
        assert seconds == 1
        return next(answers), "words"

    probe = {"periodSeconds": 0.01, "failureThreshold": 2}
    seen = []
    async for verdict in probes.verdicts(probe, check, told.append):
        seen.append(verdict[0])
        if len(seen) == 3:
            break
    assert seen == [True, False, True]
    assert told == ["words"]


# --- time --------------------------------------------------------------------------------------------------


def test_back_off_doubles_to_its_maximum_and_forgets() -> None:
    back_off = timing.BackOff()
    assert [back_off.failed() for _ in range(8)] == [0, 1, 2, 4, 8, 16, 30, 30]
    assert back_off.failed(ran_for=61) == 0
    assert back_off.failed() == 1


async def test_deadline_can_be_moved_nearer_while_someone_waits() -> None:
    deadline = timing.Deadline(60)
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(deadline.wait(never))
    await asyncio.sleep(0)
    deadline.shorten(90)
    deadline.shorten(0.01)
    assert await asyncio.wait_for(waiting, 5) is False
    assert not never.cancelled()


async def test_deadline_ends_early_with_the_first_future() -> None:
    loop = asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()
    loop.call_later(0.01, second.set_result, None)
    assert await asyncio.wait_for(timing.Deadline(60).wait(first, second), 5) is True


# --- chores ------------------------------------------------------------------------------------------------


def test_memory_is_counted_over_processes() -> None:
    assert procfs.memory_above([os.getpid()], 1024 * 1024)
    assert not procfs.memory_above([os.getpid()], 1 << 40)
    assert not procfs.memory_above([0], 0)


def test_members_of_our_own_namespace() -> None:
    assert os.getpid() in procfs.members(os.getpid())
    assert procfs.members(1 << 30) == []


def test_haproxy_stops_softly() -> None:
    assert images.find_image("haproxy").stop_signal == signal.SIGUSR1
