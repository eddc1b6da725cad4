"""Tools for the tests of plugin authors: builders of pods and nodes, arguments of single hooks, scenarios, and checks.

Each name is imported on first use: pytest loads its plugin, which is in this package, in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kframework.lazy_names import load_on_first_use

if TYPE_CHECKING:  # isort: off
    from kframework.in_memory.kind_store import Change as Change
    from kframework.client.transport import User as User
    from kframework.in_memory.kubelet import (
        EXIT_CODE as EXIT_CODE,
        RUN_SECONDS as RUN_SECONDS,
    )
    from kframework.testing.api_server import fake_api as fake_api
    from kframework.testing.builders import (
        make_container as make_container,
        make_node as make_node,
        make_pod as make_pod,
        make_taint as make_taint,
        make_toleration as make_toleration,
        node_info as node_info,
        node_table as node_table,
        pending_pod as pending_pod,
    )
    from kframework.testing.contract.plugin_contract import PluginContract as PluginContract
    from kframework.testing.contract.promises import check_plugin as check_plugin
    from kframework.testing.contract.probe import Coverage as Coverage
    from kframework.testing.contract.probe import ContractViolation as ContractViolation
    from kframework.testing.decision_log import DecisionLog as DecisionLog
    from kframework.testing.scenario import (
        ScenarioResult as ScenarioResult,
        Scenario as Scenario,
        create as create,
        delete as delete,
        patch as patch,
    )
    from kframework.simulation.source_script import SourceScript as SourceScript
    from kframework.testing.spans import Spans as Spans
    from kframework.testing.stubs import (
        StubClock as StubClock,
        StubHandle as StubHandle,
        stub_handle as stub_handle,
    )
    from kframework.testing.wake_ups import (
        LostWakeUp as LostWakeUp,
        WakeUps as WakeUps,
        check_wake_ups as check_wake_ups,
    )
else:
    __getattr__, __dir__ = load_on_first_use(__name__)
