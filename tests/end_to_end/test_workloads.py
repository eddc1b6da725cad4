"""kubectl rolls a deployment out and back on a fake API that a scheduler works in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.processes import Kubectl, kframework, until

pytestmark = [pytest.mark.slow, pytest.mark.tool("kubectl"), pytest.mark.timeout(120)]

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "50"}}
"""


def test_deployment_is_rolled_out_back_and_scaled(tmp_path: Path) -> None:
    file, kubeconfig = tmp_path / "node.yaml", tmp_path / "kubeconfig"
    file.write_text(NODE)
    options = ("--embedded", "-f", str(file), "--write-kubeconfig", str(kubeconfig), "--secure-port=0")
    with kframework("run", *options) as server:
        until(kubeconfig.exists)
        kubectl = Kubectl(kubeconfig)
        kubectl("create", "deployment", "web", "--image=app:1", "--replicas=3")
        done = 'deployment "web" successfully rolled out'
        assert done in kubectl("rollout", "status", "deployment/web", "--timeout=30s")
        kubectl("set", "image", "deployment/web", "app=app:2")
        assert done in kubectl("rollout", "status", "deployment/web", "--timeout=30s")
        image = "jsonpath={.items[*].spec.containers[*].image}"
        until(lambda: kubectl("get", "pods", "-o", image) == "app:2 app:2 app:2")
        kubectl("rollout", "undo", "deployment/web")
        assert done in kubectl("rollout", "status", "deployment/web", "--timeout=30s")
        until(lambda: kubectl("get", "pods", "-o", image) == "app:1 app:1 app:1")
        rows = kubectl("rollout", "history", "deployment/web").splitlines()
        assert [row.split()[0] for row in rows if row[:1].isdigit()] == ["2", "3"]
        kubectl("scale", "deployment/web", "--replicas=5")
        assert done in kubectl("rollout", "status", "deployment/web", "--timeout=30s")
        assert kubectl("get", "deployment", "web", "--no-headers").split()[:4] == ["web", "5/5", "5", "5"]
        kubectl("delete", "deployment", "web", "--cascade=foreground")
        assert kubectl("get", "pods,replicasets,deployments", "-o", "name") == ""
        server.stop()
