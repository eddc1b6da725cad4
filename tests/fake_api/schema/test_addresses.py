"""Services get addresses and ports that no other has."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.schema.addresses import assign_addresses
from tests.fake_api.local_api import MERGE, LocalApi

SERVICES = "/api/v1/namespaces/default/services"


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}} | spec}


async def test_assigned_addresses_are_kept() -> None:
    api = LocalApi()
    created = [await api.call("POST", SERVICES, service(f"s{number}")) for number in range(20)]
    addresses = {each["spec"]["clusterIP"] for each in created}
    assert len(addresses) == 20
    assert all(10 == int(address.split(".")[0]) and 96 <= int(address.split(".")[1]) < 112 for address in addresses)
    spec = created[0]["spec"]
    assert (spec["clusterIPs"], spec["ipFamilies"], spec["ipFamilyPolicy"]) == (
        *([spec["clusterIP"]], ["IPv4"]),
        "SingleStack",
    )
    patch = {"metadata": {"labels": {"a": "b"}}}
    patched = await api.call("PATCH", f"{SERVICES}/s0", patch, content_type=MERGE)
    assert patched["spec"]["clusterIP"] == spec["clusterIP"]
    body = service("s0", clusterIP="10.96.0.9")
    status, _, message = await api.call_error("PUT", f"{SERVICES}/s0", body)
    assert (status, message.rpartition(": ")[2]) == (422, "may not change once set")


async def test_node_ports_are_assigned() -> None:
    api = LocalApi()
    for name in ("a", "b"):
        created = await api.call("POST", SERVICES, service(name, type="NodePort"))
        assert 30000 <= created["spec"]["ports"][0]["nodePort"] <= 32767
        replaced = await api.call("PUT", f"{SERVICES}/{name}", service(name, type="NodePort"))
        assert replaced["spec"] == created["spec"]


@pytest.mark.parametrize(
    ("spec", "address"), [({"clusterIP": "None"}, "None"), ({"clusterIP": "10.96.0.10"}, "10.96.0.10")]
)
def test_requested_addresses_are_kept(spec: dict[str, Any], address: str) -> None:
    result: Any = assign_addresses(service("a", type="ClusterIP", **spec), ())
    assert result["spec"]["clusterIP"] == address


def test_external_name_service_has_no_address() -> None:
    result = service("a", type="ExternalName")
    assert assign_addresses(result, ()) is result


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]},
            "spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated",
        ),
        (
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
            (
                "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. "
                "The range of valid ports is 30000-32767"
            ),
        ),
        (
            {"clusterIP": "10.96.0.1"},
            (
                'spec.clusterIPs: Invalid value: ["10.96.0.1"]: failed to allocate IP 10.96.0.1: '
                "provided IP is already allocated"
            ),
        ),
    ],
)
async def test_taken_address_is_rejected(spec: dict[str, Any], why: str) -> None:
    api = LocalApi()
    ports = [{"port": 80, "nodePort": 30001}]
    body = service("first", type="NodePort", clusterIP="10.96.0.1", ports=ports)
    created = await api.call("POST", SERVICES, body)
    assert await api.call_error("POST", SERVICES, service("second", **spec)) == (
        *(422, "Invalid"),
        f'Service "second" is invalid: {why}',
    )
    assert (await api.call("PUT", f"{SERVICES}/first", body))["spec"] == created["spec"]
