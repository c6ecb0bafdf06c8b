"""The rendered configuration: what is in it, and what makes HAProxy reload."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from inference_operator.agent import config
from inference_operator.agent.model import Gateway, within
from tests.unit.agent.builders import engine, gateway, pool, settings

TWO = gateway(pool(engine("e0"), engine("e1", "10.0.1.2", draining=True)))


def test_servers_carry_every_check_parameter_and_draining_ones_wait_for_the_agent():
    text = config.file(TWO, settings(), {"team-a.llama.v1": 7})
    servers = [line.strip() for line in text.splitlines() if line.strip().startswith("server e")]
    assert servers == [
        f"server e0 10.0.1.1:8000 {config.SERVER_OPTIONS} maxconn 7",
        f"server e1 10.0.1.2:8000 {config.SERVER_OPTIONS} maxconn 7 disabled",
    ]


@pytest.mark.parametrize(
    "recipe",
    [
        "inter 500ms fastinter 200ms downinter 500ms fall 2 rise 2",
        "error-limit 3 on-error mark-down",
    ],
)
def test_the_measured_check_recipe_is_kept(recipe: str):
    assert recipe in config.SERVER_OPTIONS
    assert "on-marked-down" not in config.SERVER_OPTIONS


@pytest.mark.parametrize(
    "line",
    [
        "option httpchk GET /health",
        "retry-on conn-failure empty-response 503",
        "option redispatch 1",
        "option http-buffer-request",
        "option http-no-delay",
        "timeout connect 500ms",
        "timeout check 400ms",
        "timeout server 600s",
        "timeout queue 5000ms",
        "tune.bufsize 262144",
        "hard-stop-after 3600s",
        "retries 1",
    ],
)
def test_the_measured_proxy_recipe_is_kept(line: str):
    lines = [found.strip() for found in config.file(TWO, settings(), {}).splitlines()]
    assert line in lines


def test_only_structure_asks_for_a_reload():
    base = config.structure(TWO, settings())
    other_engines = gateway(pool(engine("e9", "10.0.1.9")))
    other_share = gateway(pool(share=5))
    other_limit = gateway(pool(concurrency=99))
    assert {config.structure(g, settings()) for g in (other_engines, other_share, other_limit)} == {base}
    more_retries = gateway(replace(pool(), retries=2))
    new_track = gateway(pool(), pool(revision="v2"))
    other_path = gateway(pool(health_path="/healthz"))
    longer_queue = gateway(replace(pool(), queue_length=101))
    for changed in (more_retries, new_track, other_path, longer_queue):
        assert config.structure(changed, settings()) != base


def test_shares_are_one_line_per_track():
    wanted = gateway(pool(share=9_500), pool(revision="v2", share=500))
    assert config.shares(wanted) == "team-a.llama.v1 9500\nteam-a.llama.v2 500\n"


def test_ipv6_is_bracketed_and_bound_only_where_the_pod_has_it():
    text = config.file(gateway(pool(engine(address="2001:db8::5"))), settings(pod_ip="2001:db8::1"), {})
    assert "server e0 [2001:db8::5]:8000 " in text
    assert "bind [::]:8080 v4v6 id 1" in text
    assert "bind *:8080 id 1" in config.file(TWO, settings(), {})


def test_connections_follow_from_the_memory_limit():
    # 960 MiB for requests at 540 kB each.
    text = config.file(TWO, settings(memory_mib=1024), {})
    assert re.search(r"bind \*:8080 id 1 maxconn 1864\n", text)
    assert "if { queue ge 100 }" in text
    small = config.file(gateway(replace(pool(), queue_length=10**6)), settings(memory_mib=128), {})
    assert "if { queue ge 124 }" in small


def test_a_second_cluster_is_chosen_by_path_or_header_and_a_single_one_by_nothing():
    many = Gateway(TWO.pools, 60.0, (("team-a", "llama"), ("team-b", "qwen")))
    text = config.file(many, settings(), {})
    assert "str(team-b.qwen) if { path_beg /team-b/qwen/ } || " in text
    assert "path_beg" not in config.file(TWO, settings(), {})


def test_what_needs_a_reload_is_left_out_until_it_is_done():
    running = gateway(pool(engine("e0")), pool(engine("o0"), revision="old"))
    wanted = gateway(pool(engine("e0"), engine("e1"), share=7), pool(engine("n0"), revision="new"))
    now = within(running, wanted)
    assert config.structure(now, settings()) == config.structure(running, settings())
    kept, old = now.pools
    assert [e.pod for e in kept.engines] == ["e0", "e1"]
    assert kept.track.share == 7
    assert (old.track.share, [e.draining for e in old.engines]) == (0, [True])


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="needs the program haproxy")
@pytest.mark.parametrize(
    "wanted",
    [
        Gateway(),
        TWO,
        Gateway(TWO.pools, 7_200.0, (("team-a", "llama"), ("team-b", "qwen"))),
        gateway(pool(engine("e0", "2001:db8::5")), pool(revision="v2", share=0)),
    ],
    ids=["nothing", "one-track", "two-clusters", "two-tracks"],
)
def test_haproxy_accepts_it_without_a_warning(tmp_path: Path, wanted: Gateway):
    here = settings(tmp_path)
    here.shares_file.write_text(config.shares(wanted))
    here.server_state_file.write_text(config.NO_STATES)
    here.config_file.write_text(config.file(wanted, here, {}))
    result = subprocess.run(
        ["haproxy", "-c", "-f", str(here.config_file)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stderr, result.stderr
