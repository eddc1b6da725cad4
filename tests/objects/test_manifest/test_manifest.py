"""Reading cluster files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from kframework.errors import InputError, InputErrors
from kframework.objects.kinds import reference
from kframework.objects.manifest import SkippedKind, read
from kframework.objects.meta import ObjectMeta
from kframework.objects.node import Node
from kframework.objects.pod import Pod
from tests.support.declared_kinds import Team, TeamSpec


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text).lstrip("\n"))
    return str(path)


def names(*paths: str) -> list[str]:
    return [reference(found) for found in read(paths).objects]


NODE = "{apiVersion: v1, kind: Node, metadata: {name: %s}}\n"


def test_output_of_kubectl_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "cluster.yaml",
        """
        apiVersion: v1
        items:
        - apiVersion: v1
          kind: Node
          metadata:
            creationTimestamp: "2026-01-02T03:04:05Z"
            labels:
              gen: "007"
            managedFields: [{manager: kubelet}]
            name: n1
          spec: {}
          status:
            allocatable: {cpu: "4", memory: 16Gi, pods: "110"}
        - apiVersion: v1
          kind: Pod
          metadata: {name: web-0, namespace: shop, creationTimestamp: null}
          spec:
            containers: [{name: c, resources: {requests: {cpu: 0.5}}}]
            nodeSelector: null
        kind: List
        metadata:
          resourceVersion: ""
        """,
    )
    manifest = read([path])
    node, pod = manifest.objects
    assert isinstance(node, Node)
    assert node.metadata.labels == {"gen": "007"}
    assert isinstance(pod, Pod)
    assert pod.spec.containers[0].resources.requests == {"cpu": 0.5}
    assert manifest.skipped == []


def test_unread_fields_are_kept_as_written(tmp_path: Path) -> None:
    text = "{apiVersion: v1, kind: PodList, items: [{metadata: {name: web}, spec: {hostname: web, containers: []}}]}"
    manifest = read([written(tmp_path, "web.yaml", text + "\n---\n" + NODE % "n1")])
    spec = {"hostname": "web", "containers": []}
    assert manifest.documents == [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
    ]


def test_documents_lists_and_plain_objects_keep_their_order(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "all.yaml",
        """
        ---
        apiVersion: v1
        kind: Node
        metadata: {name: b}
        ---
        # nothing here
        ---
        apiVersion: v1
        kind: PodList
        items:
        - metadata: {name: p, namespace: x}
        - metadata: {name: p}
        ---
        {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: NodeList, items: [{metadata: {name: a}}]}]}
        ---
        apiVersion: v1
        kind: PodList
        items: null
        """,
    )
    assert names(path) == ["Node b", "Pod x/p", "Pod default/p", "Node a"]


def test_json_file_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "all.json",
        """
        {"kind": "NodeList", "apiVersion": "v1",
        \t"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}
        """,
    )
    assert names(path) == ["Node a", "Node b"]


def test_json_objects_may_follow_each_other_and_keep_their_lines(tmp_path: Path) -> None:
    node, pod = (
        '{"apiVersion": "v1", "kind": "Node",\n "metadata": {"name": "a"}}',
        '{"apiVersion": "v1", "kind": "Pod"',
    )
    stream = tmp_path / "stream.json"
    stream.write_text(f'{node}\n\n{pod}, "metadata": {{"name": "p"}}}}\n')
    assert [each.metadata.name for each in read([str(stream)]).objects] == ["a", "p"]
    stream.write_text(f'{node}\n{pod},\n "metadata": {{"name": 7}}}}\n')
    with pytest.raises(InputError, match=r"stream\.json:4: "):
        read([str(stream)])


def test_folder_is_read_through_in_order(tmp_path: Path) -> None:
    for name in ("z.yaml", "b/c.yml", "a.json", "b/ignored.txt"):
        written(tmp_path, name, NODE % Path(name).stem)
    assert names(str(tmp_path)) == ["Node a", "Node c", "Node z"]


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(NODE % "piped"))
    assert names(written(tmp_path, "a.yaml", NODE % "first"), "-") == ["Node first", "Node piped"]


def test_unknown_kinds_are_counted(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "mixed.yaml",
        """
        {apiVersion: v1, kind: ResourceQuotaList, items: [{metadata: {}}, {metadata: {}}]}
        ---
        {apiVersion: networking.k8s.io/v1, kind: Ingress}
        ---
        {apiVersion: v1, kind: ResourceQuota}
        ---
        {apiVersion: v1, kind: Node, metadata: {name: n1}}
        """,
    )
    manifest = read([path])
    assert len(manifest.objects) == 1
    assert manifest.skipped == [
        SkippedKind("v1", "ResourceQuota", 3),
        SkippedKind("networking.k8s.io/v1", "Ingress", 1),
    ]


def test_kind_that_a_plugin_declares_is_read_like_any_other(tmp_path: Path) -> None:
    teams = "{apiVersion: example.com/v1beta1, kind: TeamList, items: [{metadata: {name: red}, spec: {maxPods: 3}}]}"
    manifest = read([written(tmp_path, "teams.yaml", teams)])
    assert manifest.objects == [Team(metadata=ObjectMeta(name="red"), spec=TeamSpec(max_pods=3))]
    with pytest.raises(InputError, match=r"Team default/red: spec\.maxPods: expected an integer, got a string"):
        read([written(tmp_path, "teams.yaml", teams.replace("3", '"three"'))])
    with pytest.raises(InputError, match=r"Team default/red: spec: Object contains unknown field `minPods`"):
        read([written(tmp_path, "teams.yaml", teams.replace("3", "3, minPods: 1"))])


def test_yaml_is_read_as_kubernetes_reads_it(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "node.yaml",
        """
        apiVersion: v1
        kind: Node
        metadata:
          name: n1
          creationTimestamp: 2026-01-02T03:04:05Z
          annotations: {day: 2026-01-02, sign: =}
        """,
    )
    (node,) = read([path]).objects
    assert node.metadata.creation_timestamp == "2026-01-02T03:04:05Z"
    assert node.metadata.annotations == {"day": "2026-01-02", "sign": "="}


LABEL_5 = """
apiVersion: v1
kind: PodList
items:
- metadata:
    name: p
    labels:
      a: b
      x.y/z: 5
"""
CPU_MINUS_1 = """
apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: ns
spec:
  containers:
  - name: c
    resources:
      requests:
        memory: 1Gi
        cpu: -1
"""
CPU_4X = """
{"apiVersion": "v1", "kind": "Node",
 "metadata": {"name": "n1"},
 "status": {"allocatable": {"cpu": "4x"}}}
"""


@pytest.mark.parametrize(
    ("text", "line", "rest"),
    [
        ("kind: [Node\nmetadata: {}\n", 2, ""),  # in the words of the YAML parser
        ("kind: Node\n\tmetadata: {}\n", 2, ""),
        ("- kind: Node\n", 1, "expected an object with apiVersion and kind"),
        ("metadata: {}\nkind: Node\n", 1, "apiVersion is missing"),
        ("apiVersion: v1\n", 1, "kind is missing"),
        ("apiVersion: v1\nkind: 5\n", 2, "kind: expected a string"),
        ("apiVersion: v1\nkind: List\nitems:\n- 5\n", 4, "expected an object with apiVersion and kind"),
        ("apiVersion: v1\nkind: PodList\nitems: 5\n", 3, "items: expected a list"),
        ("apiVersion: v1\nkind: PodList\nitems: {a: b}\n", 3, "items: expected a list"),
        ('{"a":' * 100_000, 1, ""),  # nested too deeply for JSON and YAML
        ("apiVersion: v1\nkind: \0\n", 2, "is not YAML: control characters are not allowed: U+0000"),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: yes}\n",
            3,
            "Node: metadata.name: expected a string, got true or false; put it in quotes",
        ),
        ("apiVersion: v1\nkind: Node\nmetadata:\n  labels: {}\n", 3, "Node: metadata.name: is missing"),
        (
            "---\n---\napiVersion: v1\nkind: Node\nmetadata: [name]\n",
            5,
            "Node: metadata: expected a mapping, got a list",
        ),
        (LABEL_5, 8, "Pod default/p: metadata.labels[x.y/z]: expected a string, got an integer; put it in quotes"),
        (
            CPU_MINUS_1,
            12,
            'Pod ns/p: spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal',
        ),
        (CPU_4X, 3, "Node n1: status.allocatable.cpu: '4x' is not a quantity"),
    ],
)
def test_error_is_one_line_with_its_location(tmp_path: Path, text: str, line: int, rest: str) -> None:
    path = written(tmp_path, "bad.yaml", text)
    with pytest.raises(InputError) as caught:
        read([path])
    assert str(caught.value).startswith(f"{path}:{line}: {rest}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("containers: {name: c}", "spec.template.spec.containers: expected a list, got a mapping"),
        (
            "containers: [{resources: {requests: {cpu: x}}}]",
            "spec.template.spec.containers[0].resources.requests.cpu: ",
        ),
        ("tolerations: [{key: a, operator: Exist}]", "spec.template.spec.tolerations[0].operator: Unsupported value: "),
    ],
)
def test_problem_of_a_template_is_reported_at_its_line(tmp_path: Path, fault: str, problem: str) -> None:
    file = tmp_path / "d.yaml"
    head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  template:\n    spec:\n"
    file.write_text(f"{head}      {fault}\n")
    with pytest.raises(InputError) as caught:
        read([str(file)])
    assert str(caught.value).startswith(f"{file}:7: Deployment default/d: {problem}")


def test_object_given_twice_names_both_places(tmp_path: Path) -> None:
    first = written(tmp_path, "first.yaml", "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: p}\n")
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default}}"
    second = written(tmp_path, "second.yaml", f"{NODE % 'p'}---\n{pod}\n")
    with pytest.raises(InputError) as caught:
        read([first, second])
    assert str(caught.value) == f"{second}:3: Pod default/p: given twice, first at {first}:4: remove one of them"


def test_json_that_yaml_cannot_read_has_no_line(tmp_path: Path) -> None:
    path = written(tmp_path, "bad.json", '{\n\t"apiVersion": "v1", "kind": "Node"\n}')
    with pytest.raises(InputError) as caught:
        read([path])
    assert caught.value.subject == "Node"
    assert caught.value.path == "metadata.name"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.yaml")
    with pytest.raises(InputError, match="No such file"):
        read([missing])
    with pytest.raises(InputError, match=r"no \*\.yaml"):
        read([str(tmp_path)])
    (tmp_path / "latin.yaml").write_bytes(b"\xe9")
    with pytest.raises(InputError, match="not UTF-8"):
        read([str(tmp_path / "latin.yaml")])


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_pods_of_one_template_share_what_they_have_in_common(tmp_path: Path, suffix: str) -> None:
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec} for name in "ab"]
    other = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}, "spec": {**spec, "hostNetwork": True}}
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*pods, other]})
    file = tmp_path / f"pods.{suffix}"
    file.write_text(listed if suffix == "json" else yaml.safe_dump(json.loads(listed)))
    manifest = read([str(file)])
    one, two, three = (each for each in manifest.objects if isinstance(each, Pod))
    assert one.spec is two.spec
    assert one.status is two.status
    assert three.spec.host_network and three.spec.containers == one.spec.containers
    assert [written["metadata"] for written in manifest.documents] == [{"name": name} for name in "abc"]


def test_values_equal_only_to_python_are_not_shared(tmp_path: Path) -> None:
    file = tmp_path / "pods.json"
    items = ",".join(
        f'{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{name}"}}, "spec": {{"hostNetwork": {text}}}}}'
        for name, text in (("a", "true"), ("b", "1"))
    )
    file.write_text(f'{{"apiVersion": "v1", "kind": "List", "items": [{items}]}}')
    with pytest.raises(InputError, match="expected true or false, got an integer"):
        read([str(file)])


FAULTS = """\
apiVersion: v1
kind: PodList
items:
- metadata: {name: a}
  spec: {containers: [], tolerations: [{key: k, operator: Exist}]}
- metadata: {name: b}
  spec: {containers: {}}
- metadata: {name: sound}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  template:
    spec: {containers: [], tolerations: [{key: k, effect: Noschedule}]}
"""


def test_every_faulty_object_is_named_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "bad.yaml", FAULTS)
    with pytest.raises(InputErrors) as caught:
        read([path])
    assert [(error.line, error.subject) for error in caught.value.errors] == [
        (5, "Pod default/a"),
        (7, "Pod default/b"),
        (15, "Deployment default/d"),
    ]


def test_faulty_objects_beyond_twenty_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path, "bad.yaml", "---".join("\n{apiVersion: v1, kind: Node}\n" for _ in range(50)))
    with pytest.raises(InputErrors) as caught:
        read([path])
    assert [error.line for error in caught.value.errors[:20]] == [*range(1, 40, 2)]
    assert [*map(str, caught.value.errors[20:])] == ["and 30 more"]
