"""Demand of a cluster: the sum over all its gateway pods, those on their way out included. Pure.

    answers of the agents now  +  each gateway's last answer  ->  a sum, or why there is none

A gateway that doesn't answer counts with its last value for 60 s, then the sum is an error: the HPA does
nothing then. A partial sum would look like less load, and 0 would shrink the cluster to its minimum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

#: How long a gateway's last value counts. Seconds.
LAST_GOOD_SECONDS: Final = 60.0


@dataclass(frozen=True)
class GatewayPod:
    """A gateway pod that exists and may hold requests."""

    name: str
    #: IP address; "" = it has none yet.
    address: str


@dataclass(frozen=True)
class Answer:
    """What one agent said of one cluster."""

    #: When, in monotonic seconds.
    at: float
    #: Requests held, queued and in flight.
    demand: int
    #: Requests that one engine works on at once within the SLO; 0 = it has no routing yet.
    concurrency: int


@dataclass(frozen=True)
class Demand:
    """The sum of one cluster."""

    requests: int
    #: The smallest that any gateway states: while they differ, rather a replica too many.
    concurrency: int
    #: Age of the oldest part. Seconds.
    age: float


class Unknown(Exception):
    """There is no honest figure: says why in words that don't change while the cause doesn't."""


def total(pods: Sequence[GatewayPod], answers: Mapping[str, Answer], now: float) -> Demand:
    """`answers` by pod, the last one of each. Raises Unknown."""
    if not pods:
        raise Unknown("the cluster has no gateway pod")
    silent = sorted(
        pod.name
        for pod in pods
        if (last := answers.get(pod.name)) is None or now - last.at > LAST_GOOD_SECONDS
    )
    if silent:
        raise Unknown(f"no answer from gateway {', '.join(silent[:3])} for {LAST_GOOD_SECONDS:.0f} s")
    parts = [answers[pod.name] for pod in pods]
    stated = [part.concurrency for part in parts if part.concurrency > 0]
    if not stated:
        raise Unknown("no gateway has got its routing yet")
    return Demand(
        requests=sum(part.demand for part in parts),
        concurrency=min(stated),
        age=max(0.0, now - min(part.at for part in parts)),
    )
