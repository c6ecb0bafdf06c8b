"""Who may ask."""

from __future__ import annotations

from typing import Any

import pytest

from inference_operator.metrics_api.frontproxy import Trust, common_name, read_trust, user

TRUST = Trust("pem", ("front-proxy-client",), ("x-remote-user",))
HEADERS = {"x-remote-user": "system:serviceaccount:kube-system:horizontal-pod-autoscaler"}


def certificate(name: str) -> dict[str, Any]:
    return {"subject": ((("organizationName", "x"),), (("commonName", name),))}


def test_the_api_server_asks_for_a_user() -> None:
    assert user(TRUST, certificate("front-proxy-client"), HEADERS) == HEADERS["x-remote-user"]


@pytest.mark.parametrize(
    ("shown", "headers"),
    [
        (None, HEADERS),
        ({}, HEADERS),
        (certificate("somebody"), HEADERS),
        (certificate("front-proxy-client"), {}),
        (certificate("front-proxy-client"), {"x-remote-user": ""}),
        (certificate("front-proxy-client"), {"x-remote-user": "system:anonymous"}),
    ],
)
def test_nobody_else_does(shown: dict[str, Any] | None, headers: dict[str, str]) -> None:
    assert user(TRUST, shown, headers) is None


def test_without_a_list_of_names_the_authority_is_enough() -> None:
    anybody = Trust("pem", (), ("x-remote-user",))
    assert user(anybody, certificate("somebody"), HEADERS)


def test_the_config_map_is_read_as_kubernetes_writes_it() -> None:
    data = {
        "requestheader-client-ca-file": "pem",
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
    }
    assert read_trust({"data": data}) == TRUST


@pytest.mark.parametrize("config_map", [{}, {"data": None}, {"data": {"client-ca-file": "pem"}}])
def test_without_an_authority_nobody_is_trusted(config_map: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"requestheader-client-ca-file"):
        read_trust(config_map)


def test_a_certificate_without_a_name_has_none() -> None:
    assert common_name(None) == common_name({"subject": ()}) == ""
