"""Log lines, as 2.6.12 and 3.2.0 wrote them."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from inference_operator.agent.haproxylog import Changed, CheckFailed, Request, parse
from inference_operator.agent.metrics import Metrics

LINE = (
    b'{"backend":"a.b.v1","server":"e1","end":"%s","status":%d,"retries":"%s","connect":0,"headers":%d,'
    b'"total":1740,"sent":%d,"received":0}'
)


def line(end: bytes, status: int = 200, retries: bytes = b"0", headers: int = 5, sent: int = 100) -> Request:
    request = parse(LINE % (end, status, retries, headers, sent))
    assert isinstance(request, Request)
    return request


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        (line(b"--"), set()),
        (line(b"SD"), {"cut", "failed"}),
        (line(b"KD"), {"cut", "failed"}),
        # 3.2 says that the session was in connection phase and the status 500, whatever it was.
        (line(b"KC", 500), {"cut", "failed"}),
        (line(b"KC", 500, headers=-1), {"moved"}),
        (line(b"CD"), set()),
        (line(b"SC", 503, headers=-1), {"lost"}),
        (line(b"sQ", 503, headers=-1), {"lost"}),
        (line(b"SH", 502, headers=-1), {"lost"}),
        (line(b"CH", -1, headers=-1), set()),
        (line(b"--", 500), {"failed"}),
        (line(b"--", 503), set()),
        (line(b"PR", 503, headers=-1), set()),
    ],
)
def test_who_is_to_blame_for_an_end(request_: Request, want: set[str]):
    got = {name for name in ("cut", "failed", "lost", "moved") if getattr(request_, name)}
    assert got == want


def test_retries_and_another_engine():
    assert (line(b"--", retries=b"+2").retries, line(b"--", retries=b"+2").redispatched) == (2, True)
    assert (line(b"--", retries=b"1").retries, line(b"--", retries=b"1").redispatched) == (1, False)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (
            "Health check for server a.b.v1/e1 failed, reason: Layer7 timeout, check duration: 485ms, "
            "status: 1/2 UP.",
            CheckFailed("a.b.v1", "e1", 0.485),
        ),
        (
            'Health check for server a.b.v1/e1 failed, reason: Layer4 connection problem, info: "Connection '
            'refused", check duration: 0ms, status: 0/2 DOWN.',
            CheckFailed("a.b.v1", "e1", 0.0),
        ),
        ("Server a.b.v1/e1 is DOWN. 2 active and 0 backup servers left.", Changed()),
        ("Server a.b.v1/e1 is UP. 2 active and 0 backup servers online.", Changed()),
        (
            "Health check for server a.b.v1/e1 succeeded, reason: Layer7 check passed, code: 200, check "
            "duration: 3ms, status: 2/2 UP.",
            None,
        ),
        ("Proxy clients stopped (cumulated conns: FE: 0, BE: 0).", None),
        ("{broken", None),
        ('{"backend":"x"}', None),
        ("", None),
        ("\xff\xfe", None),
    ],
)
def test_other_lines(text: str, want: object):
    assert parse(text.encode("latin-1")) == want


def test_requests_become_counters():
    metrics = Metrics(lambda: ())
    for request in (
        line(b"--", retries=b"+1"),
        line(b"KC", 500, headers=-1),
        line(b"SD"),
        line(b"SC", 503, headers=-1),
        line(b"--", sent=300_000),
    ):
        metrics.request(request)
    text = generate_latest(metrics.registry).decode()
    labels = 'cluster="b",namespace="a",revision="v1"'
    assert 'inference_gateway_requests_total{cluster="b",code="2xx",namespace="a",revision="v1"} 3.0' in text
    assert 'inference_gateway_requests_total{cluster="b",code="5xx",namespace="a",revision="v1"} 1.0' in text
    for name in (
        "retries",
        "redispatched_requests",
        "moved_requests",
        "streams_cut",
        "requests_lost",
        "unretryable_requests",
    ):
        assert f"inference_gateway_{name}_total{{{labels}}} 1.0" in text
