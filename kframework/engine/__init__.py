"""The names that second engines import, loaded on first use.

An engine derives from `Engine`; `Scheduler`, `Simulation` and `Process` take its factory (`EngineFactory`). It keeps
the live tables (`ClusterState`), decides, and binds through its `Host`: it passes a `Reservation`, and receives
`BindingEnded` as a message. `contrib_plugins/kframework-batch` is a complete example.

Time and randomness are in `kframework.clock`. Plugin authors need only `kframework`, `kframework.objects` and
`kframework.testing`. This module is public too, but changes with the core: a second engine must declare its minor
version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kframework.lazy_names import load_on_first_use

if TYPE_CHECKING:  # isort: off
    # The driver of an engine, and its side effects: bindings, statuses, events. The pods of a `Run` are bound together.
    from kframework.core.cycle.attempt import Attempt as Attempt
    from kframework.core.cycle.results import (
        Reservation as Reservation,
        ScheduleResult as ScheduleResult,
    )
    from kframework.core.cycle.run import (
        Run as Run,
        RunBinding as RunBinding,
    )
    from kframework.core.runtime.timing import AttemptTrace as AttemptTrace
    from kframework.core.host import (
        Host as Host,
        PodEvent as PodEvent,
    )
    from kframework.core.engine import Engine as Engine
    from kframework.scheduler.scheduler import (
        EngineFactory as EngineFactory,
        Scheduler as Scheduler,
    )

    # The messages that reach it; it derives its own from `EngineMessage`.
    from kframework.state.inbox import (
        BindingEnded as BindingEnded,
        Upserted as Upserted,
        Deleted as Deleted,
        Message as Message,
        EngineMessage as EngineMessage,
        Synced as Synced,
        AnswersInvalidated as AnswersInvalidated,
    )

    # The cluster that it schedules, and one in memory.
    from kframework.client.cluster import Cluster as Cluster
    from kframework.in_memory.cluster import MemoryCluster as MemoryCluster

    # The live tables, and additional columns.
    from kframework.state.cluster import ClusterState as ClusterState
    from kframework.state.columns import Column as Column

    # Its profiles, which it may compile again, and the plugins in them.
    from kframework.core.plugin_handle import (
        ProfilesFactory as ProfilesFactory,
        profiles_factory as profiles_factory,
    )
    from kframework.core.runtime.points import (
        run_reserve as run_reserve,
        run_unreserve as run_unreserve,
    )
    from kframework.core.runtime.profile import (
        Profile as Profile,
        Signature as Signature,
    )
    from kframework.core.runtime.profiles import Profiles as Profiles
    from kframework.core.runtime.registry import (
        Offer as Offer,
        Offers as Offers,
        Registry as Registry,
        override_installed as override_installed,
    )
    from kframework.plugins.node_resources_fit.plugin import NodeResourcesFit as NodeResourcesFit

    # The plugins' answers about a pod on all nodes: cached per signature, or searched for.
    from kframework.core.cycle.all_nodes import AllNodesSearch as AllNodesSearch
    from kframework.core.cycle.answer_cache import AnswerColumns as AnswerColumns
    from kframework.core.cycle.plan import (
        PlanCache as PlanCache,
        Plan as Plan,
    )
    from kframework.core.cycle.rejections import PASS as PASS
    from kframework.core.cycle.rotation import Rotation as Rotation

    # The records of each attempt and of each binding cycle, which observers read.
    from kframework.core.cycle.records import (
        Binding as Binding,
        Decision as Decision,
        Observer as Observer,
        Result as Result,
        fit_error as fit_error,
    )

    # kube-scheduler's configuration files, and files of its own that are read in the same way.
    from kframework.config.configuration import (
        Configuration as Configuration,
        RawArgs as RawArgs,
    )
    from kframework.config.decode import (
        decode as decode,
        field_names as field_names,
    )
    from kframework.config.document import (
        Document as Document,
        Json as Json,
        YamlLocation as YamlLocation,
        parse_configuration_documents as parse_configuration_documents,
        read_source as read_source,
    )
    from kframework.config.duration import Duration as Duration
    from kframework.config.load import (
        load_configuration as load_configuration,
        options_of as options_of,
        with_overrides as with_overrides,
    )
    from kframework.config.models import LeaderElectionSettings as LeaderElectionSettings
    from kframework.config.configuration import (
        OPTIONS_KIND as OPTIONS_KIND,
        Options as Options,
    )
    from kframework.objects.problem import Problem as Problem, required as required, short_repr as short_repr
    from kframework.errors import collect_errors as collect_errors, raise_collected as raise_collected
    from kframework.errors import nearest_name as nearest_name

    # A process with an election, endpoints and a log.
    from kframework.observe.journal import Journal as Journal
    from kframework.process.observers import Observers as Observers
    from kframework.process.process import (
        SideTask as SideTask,
        Process as Process,
    )
    from kframework.process.rbac import manifests as manifests
    from kframework.verbosity import NOTICE as NOTICE

    # Families of metrics of its own.
    from kframework.observe.metrics.families import Family as Family
    from kframework.observe.metrics.series import (
        CounterSeries as CounterSeries,
        HistogramSeries as HistogramSeries,
        ScrapedSeries as ScrapedSeries,
        Series as Series,
        as_labels as as_labels,
    )

    # Spans of its own: an observer of its accounts gives them to a Tracing, with their sample values.
    from kframework.observe.tracing.spans import Span as Span
    from kframework.observe.tracing.spans import Tracing as Tracing
    from kframework.observe.tracing.traces import SpanAttributes as SpanAttributes

    # Recordings, and the engine's factory for a replay: an EngineKind, an entry point of `kframework.engines`.
    from kframework.observe.recording.diff import (
        DecisionDiff as DecisionDiff,
        ReplayResult as ReplayResult,
    )
    from kframework.observe.recording.engines import EngineKind as EngineKind
    from kframework.observe.recording.writer import (
        RecordingEngine as RecordingEngine,
        Recorder as Recorder,
    )

    # Its answers to whether a workload fits.
    from kframework.capacity.fit_result import Obstacle as Obstacle
    from kframework.capacity.fit_simulation import (
        FIT_CONTROLLERS as FIT_CONTROLLERS,
        TrialEviction as TrialEviction,
        FitSimulation as FitSimulation,
        SimulatedEngineKind as SimulatedEngineKind,
    )
    from kframework.explain.remedies.remedies import Remedy as Remedy

    # Its part of the scheduler's page and of reports, with its own tables.
    from kframework.observe.history import History as History
    from kframework.observe.history import RecordBuffer as RecordBuffer
    from kframework.observe.report import report as report
    from kframework.observe.text_table import NONE as NONE
    from kframework.observe.web.sections import (
        Cell as Cell,
        DetailView as DetailView,
        ColumnKind as ColumnKind,
        Ref as Ref,
        Row as Row,
        Section as Section,
        SectionColumn as SectionColumn,
        Tone as Tone,
    )
    from kframework.observe.web.view import (
        BINDING as BINDING,
        EngineView as EngineView,
        PodView as PodView,
        creation_time as creation_time,
    )

    # Its explanations.
    from kframework.explain.text import (
        BRIEF as BRIEF,
        Layout as Layout,
        format_fields as format_fields,
        format_list as format_list,
        format_sections as format_sections,
        format_table as format_table,
        indent as indent,
    )
    from kframework.observe.web.view import EngineExplanation as EngineExplanation
    from kframework.explain.routes import (
        STANDBY_NOTE as STANDBY_NOTE,
        explain_route as explain_route,
    )
    from kframework.scheduler.cooperative import (
        wait_until_idle as wait_until_idle,
        run_to_end as run_to_end,
        run_cooperatively as run_cooperatively,
    )
else:
    __getattr__, __dir__ = load_on_first_use(__name__)
