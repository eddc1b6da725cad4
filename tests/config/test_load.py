"""Kinds, versions, strictness, defaults and the rules outside plugins."""

from __future__ import annotations

import io
from pathlib import Path
from textwrap import indent

import pytest

from kframework.config.configuration import Configuration
from kframework.config.duration import Duration
from kframework.config.load import default_configuration, load_configuration, parse
from kframework.config.show import effective
from kframework.core.runtime.registry import load_in_tree_args
from kframework.errors import ConfigError, ConfigErrors

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OWN = "apiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\n"


def config(body: str) -> Configuration:
    return parse(HEADER + body, "c.yaml")


def lines_of(text: str) -> list[str]:
    """Return the lines of the error that a text gives."""
    with pytest.raises(ConfigError) as caught:
        parse(text, "c.yaml")
    assert "pydantic" not in str(caught.value)
    return str(caught.value).splitlines()


def errors(body: str) -> list[str]:
    return lines_of(HEADER + body)


def test_file_is_loaded_by_its_path_or_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HEADER + "parallelism: 3\n")
    assert load_configuration(path).settings.parallelism == 3
    assert load_configuration(str(path)).settings.parallelism == 3
    monkeypatch.setattr("sys.stdin", io.StringIO(HEADER + "parallelism: 0\n"))
    with pytest.raises(ConfigError, match="<stdin>:3: parallelism: "):
        load_configuration("-")


def test_mapping_is_loaded_as_a_file_would_be() -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    assert load_configuration({**head, "parallelism": 3}) == config("parallelism: 3")
    with pytest.raises(ConfigError) as caught:
        load_configuration({**head, "paralelism": 3})
    assert str(caught.value) == "paralelism: unknown field \"paralelism\" (did you mean 'parallelism'?)"


def test_json_is_loaded_too() -> None:
    text = '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "parallelism": 2}'
    assert parse(text).settings.parallelism == 2


def test_empty_file_gives_the_default_configuration() -> None:
    assert config("") == default_configuration()
    assert config("profiles: []\nextenders:\nleaderElection: {}\n") == default_configuration()
    assert parse(OWN) == default_configuration()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "c.yaml: is empty; want kind KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1)"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n",
            (
                "c.yaml:2: kind: couldn't decode as KubeSchedulerConfiguration, got Pod (v1);"
                " want KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1)"
                " or KFrameworkConfiguration (kframework.dev/v1)"
            ),
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: kubeSchedulerConfiguration\n",
            (
                "c.yaml:2: kind: couldn't decode as KubeSchedulerConfiguration,"
                " got kubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1);"
                " want KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1)"
                " or KFrameworkConfiguration (kframework.dev/v1) (did you mean 'KubeSchedulerConfiguration'?)"
            ),
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v2\nkind: KubeSchedulerConfiguration\n",
            (
                'c.yaml:1: apiVersion: no kind "KubeSchedulerConfiguration" is registered for version'
                ' "kubescheduler.config.k8s.io/v2"; want kubescheduler.config.k8s.io/v1'
            ),
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\n",
            "c.yaml:1: kind: Required value: want kind KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1)",
        ),
        (
            "kind: KubeSchedulerConfiguration\n",
            (
                "c.yaml:1: apiVersion: Required value: want kind KubeSchedulerConfiguration"
                " (kubescheduler.config.k8s.io/v1)"
            ),
        ),
        (
            "- a\n",
            (
                "c.yaml:1: is not a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1):"
                " expected apiVersion and kind"
            ),
        ),
        (HEADER + "---\n" + HEADER, "c.yaml:4: duplicate KubeSchedulerConfiguration; a file contains one"),
    ],
)
def test_wrong_kind_is_one_clear_line(text: str, message: str) -> None:
    assert lines_of(text) == [message]


@pytest.mark.parametrize(("version", "release"), [("v1beta1", "1.23"), ("v1beta2", "1.28"), ("v1beta3", "1.29")])
def test_removed_version_is_one_error_with_its_line_and_the_remedy(version: str, release: str) -> None:
    text = (
        f"kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/{version}\n"
        "algorithmSource: {provider: DefaultProvider}\nparalelism: 4\n"
    )
    assert lines_of(text) == [
        (
            f"c.yaml:2: apiVersion: kubescheduler.config.k8s.io/{version} was removed in Kubernetes {release};"
            " write apiVersion: kubescheduler.config.k8s.io/v1"
        )
    ]


def test_policy_is_one_clear_line() -> None:
    text = '{"kind": "Policy", "apiVersion": "v1",\n "predicates": [{"name": "PodFitsHostPorts"}]}'
    assert lines_of(text) == [
        (
            "c.yaml:1: kind: scheduling policies were removed in Kubernetes 1.23;"
            " write a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) with plugins"
        )
    ]
    assert lines_of("kind: Policy\n") == lines_of(text)


def test_current_version_has_no_bind_addresses() -> None:
    assert errors("healthzBindAddress: x\n") == ['c.yaml:3: healthzBindAddress: unknown field "healthzBindAddress"']


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("paralelism: 3\n", "c.yaml:3: paralelism: unknown field \"paralelism\" (did you mean 'parallelism'?)"),
        ("Parallelism: 3\n", "c.yaml:3: Parallelism: unknown field \"Parallelism\" (did you mean 'parallelism'?)"),
        (
            "pod_max_backoff_seconds: 3\n",
            (
                'c.yaml:3: pod_max_backoff_seconds: unknown field "pod_max_backoff_seconds"'
                " (did you mean 'podMaxBackoffSeconds'?)"
            ),
        ),
        (
            "profiles:\n- plugins:\n    scores: {}\n",
            "c.yaml:5: profiles[0].plugins.scores: unknown field \"scores\" (did you mean 'score'?)",
        ),
        (
            "profiles:\n- plugins:\n    score:\n      enabled:\n      - nme: A\n",
            "c.yaml:7: profiles[0].plugins.score.enabled[0].nme: unknown field \"nme\" (did you mean 'name'?)",
        ),
        ("profile:\n", "c.yaml:3: profile: unknown field \"profile\" (did you mean 'profiles'?)"),
        ("seed: 1\n", 'c.yaml:3: seed: unknown field "seed"'),
        ('parallelism: "3"\n', 'c.yaml:3: parallelism: expected an integer, got "3"'),
        ("parallelism: true\n", "c.yaml:3: parallelism: expected an integer, got true"),
        ("parallelism: 1.5\n", "c.yaml:3: parallelism: expected an integer, got 1.5"),
        (
            "parallelism: 3000000000\n",
            "c.yaml:3: parallelism: Invalid value: 3000000000: must be less than or equal to 2147483647",
        ),
        ("profiles: {}\n", "c.yaml:3: profiles: expected a list, got {}"),
        ("profiles: [3]\n", "c.yaml:3: profiles[0]: expected a mapping, got 3"),
        (
            "profiles:\n- schedulerName: 5\n",
            "c.yaml:4: profiles[0].schedulerName: expected a string, got 5; put it in quotes",
        ),
        ("enableProfiling: 1\n", "c.yaml:3: enableProfiling: expected true or false, got 1"),
        ("clientConnection: {qps: fast}\n", 'c.yaml:3: clientConnection.qps: expected a number, got "fast"'),
        (
            "leaderElection: {leaseDuration: 15}\n",
            'c.yaml:3: leaderElection.leaseDuration: Invalid value: 15: expected a duration in quotes, such as "1m30s"',
        ),
        (
            "leaderElection:\n  leaseDuration: 15d\n",
            'c.yaml:4: leaderElection.leaseDuration: Invalid value: "15d": time: unknown unit "d" in duration "15d"',
        ),
        (
            "extenders:\n- tlsConfig: {caData: '%'}\n",
            'c.yaml:4: extenders[0].tlsConfig.caData: Invalid value: "%": is not valid base64',
        ),
        (
            "profiles:\n- pluginConfig:\n  - name: Mine\n    args: [1]\n",
            "c.yaml:6: profiles[0].pluginConfig[0].args: expected a mapping, got [1]",
        ),
        ("parallelism: 3\nparallelism: 3\n", 'c.yaml:3: parallelism: key "parallelism" already set in map'),
    ],
)
def test_decoding_is_strict(body: str, message: str) -> None:
    assert errors(body) == [message]


def test_integers_may_be_written_as_floats_and_nulls_are_absent() -> None:
    settings = config("parallelism: 4.0\npodInitialBackoffSeconds: null\nleaderElection:\n").settings
    assert (settings.parallelism, settings.pod_initial_backoff_seconds) == (4, 1)


def test_all_errors_are_reported_at_once() -> None:
    text = HEADER + "parallelism: x\nprofile: []\n---\n" + OWN + "sed: 1\ntracing: {exporter: zipkin}\n"
    assert lines_of(text) == [
        'c.yaml:3: parallelism: expected an integer, got "x"',
        "c.yaml:4: profile: unknown field \"profile\" (did you mean 'profiles'?)",
        "c.yaml:8: sed: unknown field \"sed\" (did you mean 'seed'?)",
        'c.yaml:9: tracing.exporter: Unsupported value: "zipkin": supported values: "none", "console", "otlp"',
    ]


def test_several_errors_are_a_config_error_that_holds_them() -> None:
    with pytest.raises(ConfigErrors) as caught:
        config("parallelism: 0\npodInitialBackoffSeconds: 0\n")
    first, second = caught.value.errors
    assert (caught.value.file, caught.value.line, caught.value.path) == ("c.yaml", 3, "parallelism")
    assert (first.line, second.line) == (3, 4)
    assert str(caught.value) == f"{first}\n{second}"


def test_defaults_are_filled_in() -> None:
    settings = default_configuration().settings
    assert settings.parallelism == 16
    assert settings.percentage_of_nodes_to_score == 0
    assert (settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds) == (1, 10)
    assert settings.enable_profiling and settings.enable_contention_profiling
    assert not settings.delay_cache_until_active
    assert settings.extenders == ()
    election = settings.leader_election
    assert election.leader_elect
    assert [election.lease_duration, election.renew_deadline, election.retry_period] == [15.0, 10.0, 2.0]
    assert (election.resource_lock, election.resource_name) == ("leases", "kube-scheduler")
    assert election.resource_namespace == "kube-system"
    connection = settings.client_connection
    assert (connection.qps, connection.burst) == (50, 100)
    assert connection.content_type == "application/vnd.kubernetes.protobuf"
    assert (connection.kubeconfig, connection.accept_content_types) == ("", "")
    assert [profile.scheduler_name for profile in default_configuration().profiles] == ["default-scheduler"]


def test_gos_zero_values_are_defaulted() -> None:
    settings = config(
        "clientConnection: {qps: 0, burst: 0, contentType: ''}\n"
        "leaderElection: {leaseDuration: 0s, renewDeadline: '0', retryPeriod: 0s, resourceLock: '', resourceName: '',"
        " resourceNamespace: ''}\n"
        "extenders: [{httpTimeout: 0s}]\n"
    ).settings
    assert settings.client_connection == default_configuration().settings.client_connection
    assert settings.leader_election == default_configuration().settings.leader_election
    assert settings.extenders[0].http_timeout == Duration(5)


@pytest.mark.parametrize(
    ("body", "contention"),
    [
        ("", True),
        ("enableProfiling: false\n", False),
        ("enableContentionProfiling: false\n", False),
        ("enableProfiling: false\nenableContentionProfiling: true\n", True),
    ],
)
def test_contention_is_profiled_by_default_only_when_profiling_is_on(body: str, contention: bool) -> None:
    assert config(body).settings.enable_contention_profiling is contention


def test_given_values_are_kept() -> None:
    settings = config(
        "leaderElection: {leaderElect: false, leaseDuration: 1m30s}\nclientConnection: {qps: -1, burst: 7}\n"
        "percentageOfNodesToScore: 40\ndelayCacheUntilActive: true\n"
    ).settings
    assert not settings.leader_election.leader_elect
    assert settings.leader_election.lease_duration == Duration(90)
    assert (settings.client_connection.qps, settings.client_connection.burst) == (-1, 7)
    assert settings.percentage_of_nodes_to_score == 40
    assert settings.delay_cache_until_active


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        (
            "parallelism: 0\n",
            ["parallelism: Invalid value: 0: should be an integer value greater than zero"],
        ),
        (
            "percentageOfNodesToScore: 101\n",
            ["percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"],
        ),
        (
            "percentageOfNodesToScore: -1\n",
            ["percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]"],
        ),
        (
            "podInitialBackoffSeconds: 0\n",
            ["podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"],
        ),
        (
            "podMaxBackoffSeconds: 0\n",
            ["podMaxBackoffSeconds: Invalid value: 0: must be greater than or equal to PodInitialBackoffSeconds"],
        ),
        (
            "clientConnection: {burst: -1}\n",
            ["clientConnection.burst: Invalid value: -1: must be non-negative"],
        ),
        (
            "leaderElection: {leaseDuration: 10s}\n",
            ['leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`'],
        ),
        (
            "leaderElection: {leaseDuration: -1s}\n",
            [
                'leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero',
                'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`',
            ],
        ),
        (
            "leaderElection: {retryPeriod: -2s}\n",
            ['leaderElection.retryPeriod: Invalid value: "-2s": must be greater than zero'],
        ),
        (
            "leaderElection: {renewDeadline: 12s, retryPeriod: 10s}\n",
            [
                (
                    'leaderElection.renewDeadline: Invalid value: "12s":'
                    " renewDeadline must be greater than retryPeriod*JitterFactor"
                )
            ],
        ),
        (
            "leaderElection: {resourceLock: endpoints}\n",
            ['leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"'],
        ),
        (
            "extenders: [{prioritizeVerb: score}]\n",
            ["extenders[0].weight: Invalid value: 0: must have a positive weight applied to it"],
        ),
        (
            "extenders: [{bindVerb: b}, {bindVerb: b}, {filterVerb: f}]\n",
            ['extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind'],
        ),
        (
            "extenders: [{managedResources: [{name: cpu}]}]\n",
            ['extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name'],
        ),
        (
            "extenders: [{managedResources: [{name: kubernetes.io/x}, {name: 'a/b/c'}, {name: requests.x/y}]}]\n",
            [
                f'extenders[0].managedResources[{index}].name: Invalid value: "{name}":'
                " is an invalid extended resource name"
                for index, name in enumerate(["kubernetes.io/x", "a/b/c", "requests.x/y"])
            ],
        ),
        (
            "extenders: [{managedResources: [{name: a.b/c}]}, {managedResources: [{name: a.b/c}]}]\n",
            ['extenders[1].managedResources[0].name: Invalid value: "a.b/c": duplicate extender managed resource name'],
        ),
    ],
)
def test_rules_outside_profiles(body: str, messages: list[str]) -> None:
    assert errors(body) == [f"c.yaml:3: {message}" for message in messages]


def test_leader_election_is_not_checked_where_it_is_off() -> None:
    config("leaderElection: {leaderElect: false, leaseDuration: -1s, resourceLock: endpoints}\n")


def test_extenders_keep_what_is_written() -> None:
    (extender,) = config(
        "extenders:\n- urlPrefix: https://x/\n  filterVerb: f\n  prioritizeVerb: p\n  weight: 3\n  enableHTTPS: true\n"
        "  tlsConfig: {insecure: true, serverName: s, certData: YQ==}\n  httpTimeout: 1s\n  nodeCacheCapable: true\n"
        "  managedResources: [{name: x.y/z}]\n  ignorable: true\n"
    ).settings.extenders
    assert (extender.url_prefix, extender.filter_verb, extender.prioritize_verb) == ("https://x/", "f", "p")
    assert (extender.weight, extender.enable_https, extender.http_timeout) == (3, True, Duration(1))
    assert extender.tls_config is not None
    assert (extender.tls_config.insecure, extender.tls_config.cert_data) == (True, "YQ==")
    assert extender.node_cache_capable and extender.ignorable
    assert extender.managed_resources[0].name == "x.y/z"


def test_resources_managed_by_extenders_replace_the_ignored_resources_of_every_profile() -> None:
    configuration = config(
        "extenders: [{managedResources: [{name: x.y/a, ignoredByScheduler: true}, {name: x.y/b}]}]\n"
        "profiles:\n- schedulerName: a\n  pluginConfig:\n  - name: NodeResourcesFit\n"
        "    args: {ignoredResources: [x.y/old]}\n- schedulerName: b\n"
    )
    for profile in effective(configuration, load_in_tree_args(configuration))["profiles"]:  # type: ignore[union-attr]  # a list, as below
        (fit,) = [entry["args"] for entry in profile["pluginConfig"] if entry["name"] == "NodeResourcesFit"]  # type: ignore[index,call-overload,union-attr]  # plain JSON
        assert fit["ignoredResources"] == ["x.y/a"]  # type: ignore[index,call-overload]  # plain JSON


def test_ignored_resources_need_the_args_they_go_to() -> None:
    body = (
        "extenders: [{managedResources: [{name: x.y/a, ignoredByScheduler: true}]}]\n"
        "profiles:\n- plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}\n"
    )
    assert errors(body) == [
        "c.yaml:5: profiles[0].pluginConfig: couldn't build extenders: can't find NodeResourcesFitArgs in plugin config"
    ]


HELD = f"{HEADER}profiles: [{{plugins: {{score: {{enabled: [{{name: X, weight: -1}}]}}}}}}]\n"


@pytest.mark.parametrize("others", ["", "  other.yaml: ''\n"])
def test_config_map_may_hold_the_configuration(others: str) -> None:
    head = f"kind: ConfigMap\ndata:\n{others}  scheduler-config.yaml: |\n"
    with pytest.raises(ConfigError, match="must be non-negative") as caught:
        parse(head + indent(HELD, "    "), "c.yaml")
    assert caught.value.line == head.count("\n") + 3


@pytest.mark.parametrize("entries", ["{}", "{a: '', b: ''}"])
def test_config_map_without_the_configuration_is_refused(entries: str) -> None:
    with pytest.raises(ConfigError, match='data: has no text under "scheduler-config'):
        parse(f"kind: ConfigMap\ndata: {entries}\n", "c.yaml")
