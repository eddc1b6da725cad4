"""The names that plugin authors import, loaded on first use.

`import kframework` costs next to nothing: numpy, pydantic, OpenTelemetry and the Kubernetes client are imported by the
modules that need them, and each name here imports its module on first use. Authors import from here,
`kframework.objects` and `kframework.testing`, second engines from `kframework.engine`; every other module is private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kframework.lazy_names import load_on_first_use

if TYPE_CHECKING:  # isort: off
    from kframework._version import (
        API_VERSION as API_VERSION,
        __version__ as __version__,
    )
    from kframework.cli.run import run as run
    from kframework.clock import (
        Clock as Clock,
        external_wait as external_wait,
    )
    from kframework.state.pods import QueuedPod as QueuedPod
    from kframework.errors import (
        ClusterError as ClusterError,
        ConfigError as ConfigError,
        InputError as InputError,
        KFrameworkError as KFrameworkError,
        PluginError as PluginError,
    )
    from kframework.values.scores import (
        MAX_SCORE as MAX_SCORE,
        Rows as Rows,
        Scores as Scores,
        default_normalize as default_normalize,
        min_max_normalize as min_max_normalize,
    )
    from kframework.framework.answers import (
        NOTHING as NOTHING,
        Candidate as Candidate,
        ClearNomination as ClearNomination,
        Diagnosis as Diagnosis,
        GroupProgress as GroupProgress,
        Nominate as Nominate,
        Preempt as Preempt,
    )
    from kframework.framework.cycle_state import (
        CycleState as CycleState,
        StateKey as StateKey,
    )
    from kframework.framework.domain_limits import DomainLimit as DomainLimit
    from kframework.framework.events import (
        ActionType as ActionType,
        ClusterEvent as ClusterEvent,
        EventResource as EventResource,
        QueueingHint as QueueingHint,
    )
    from kframework.framework.handle import (
        Handle as Handle,
        VictimRules as VictimRules,
    )
    from kframework.state.waiting import WaitingPod as WaitingPod
    from kframework.framework.plugin import (
        Plugin as Plugin,
        PluginArgs as PluginArgs,
        Watch as Watch,
        hookimpl as hookimpl,
        hookwrapper as hookwrapper,
    )
    from kframework.framework.source import (
        Source as Source,
        SourceChange as SourceChange,
    )
    from kframework.values.status import (
        Code as Code,
        Skip as Skip,
        Status as Status,
        Wait as Wait,
        error as error,
        unresolvable as unresolvable,
        unschedulable as unschedulable,
    )
    from kframework.framework.suggestions import (
        Suggestion as Suggestion,
        Suggestions as Suggestions,
        Target as Target,
        delete_pod as delete_pod,
        drop_volume as drop_volume,
        free_resource as free_resource,
        lower_request as lower_request,
        remove_label as remove_label,
        remove_taint as remove_taint,
        set_label as set_label,
        tolerate as tolerate,
    )
    from kframework.objects import (
        ApiObject as ApiObject,
        ApiStruct as ApiStruct,
        ObjectMeta as ObjectMeta,
        kind as kind,
    )
    from kframework.errors import ExplainError as ExplainError
    from kframework.simulation.comparison.clusters import (
        Comparison as Comparison,
        compare as compare,
    )
    from kframework.simulation.inputs import load as load
    from kframework.simulation.recording import Recording as Recording
    from kframework.simulation.simulation import (
        Simulation as Simulation,
        simulate as simulate,
    )
    from kframework.state.nodes import (
        NodeInfo as NodeInfo,
        NodeTable as NodeTable,
    )
    from kframework.state.pods import PendingPod as PendingPod, PodInfo as PodInfo
    from kframework.state.statement import Statement as Statement
    from kframework.testing.api_server import FakeApi as FakeApi
else:
    __getattr__, __dir__ = load_on_first_use(__name__)
