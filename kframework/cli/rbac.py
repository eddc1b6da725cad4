"""`kframework rbac`: print the rights that a scheduler of a configuration needs in its cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from kframework.cli.config import compile_profiles
from kframework.cli.named_plugins import PluginOption, named_plugins
from kframework.cli.options import Config, Verbosity
from kframework.cli.printing import DataForm, print_json, print_yaml
from kframework.simulation.inputs import load_simulation_configuration

NamespaceOption = Annotated[
    str, typer.Option("-n", "--namespace", metavar="NAME", help="Namespace of the ServiceAccount.")
]

NameOption = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Name of the ServiceAccount, and of all printed objects.")
]

FormOption = Annotated[DataForm, typer.Option("-o", "--output", help="Print YAML documents or a JSON list.")]


def command(
    plugin: PluginOption,
    config: Config = None,
    namespace: NamespaceOption = "kube-system",
    name: NameOption = "kframework",
    reviews: Annotated[
        bool,
        typer.Option(
            "--reviews",
            help="Also print the rights that --authentication-kubeconfig and --authorization-kubeconfig need.",
        ),
    ] = False,
    output: FormOption = DataForm.YAML,
    verbosity: Verbosity = 0,
) -> None:
    """Print the rights that a scheduler needs, and no others.

    Prints roles and bindings to a ServiceAccount, for `kubectl apply -f -`. They allow what the enabled plugins watch
    and write, what the scheduler itself writes, and the Lease of its leader election.
    """
    from kframework.core.queue.group_queue import group_watches
    from kframework.process.rbac import manifests, review_rules

    plugins = named_plugins(plugin)
    configuration = load_simulation_configuration(config, plugins)
    profiles = compile_profiles(configuration.with_all_profiles, plugins)
    election = configuration.settings.leader_election
    rules = review_rules() if reviews else []
    watches = group_watches(configuration.options.gates)
    printed = manifests(profiles, election, watches=watches, reviews=rules, name=name, namespace=namespace)
    print_objects(output, printed)


def print_objects(form: DataForm, objects: list[dict[str, object]]) -> None:
    """Print objects as `kubectl apply -f -` takes them."""
    if form is DataForm.JSON:
        print_json({"apiVersion": "v1", "kind": "List", "items": objects})
    else:
        print_yaml(*objects)
