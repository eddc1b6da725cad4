"""Kubernetes 1.37's rules of PodGroups, row by row, each with the test that runs it.

`pytest` runs a row by its name: the file below `tests`, the test, and its case in brackets if it has several.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterator

import pytest

_QUEUE, _ROWS = "core/queue/test_group_queue.py::test_", "core/queue/test_group_queue_rows.py::test_"
_GANG, _CYCLE = "plugins/test_gang_scheduling.py::test_", "core/groups/test_cycle.py::test_"
_OUTCOMES, _POINTS = "core/groups/test_outcomes.py::test_", "core/runtime/test_points.py::test_"
_CONDITIONS, _LATE = "core/test_group_conditions.py::test_", "core/groups/test_late_members.py::test_"
_PREEMPTION, _UNITS = "core/preemption/test_groups.py::test_", "core/preemption/test_units.py::test_"
_TREES, _WALK = "core/preemption/test_group_trees.py::test_", "core/groups/test_walk.py::test_"
_BINDINGS, _STORIES = "core/cycle/test_group_bindings.py::test_", "conformance/groups/test_"

_AFTER, _WALKED = (
    f"{_ROWS}group_waits_as_its_status_says",
    f"{_OUTCOMES}group_goes_as_far_as_placement_feasible_lets_it",
)
_POD, _POST = f"{_OUTCOMES}pods_fail_as_their_group_and_their_own_result_say", f"{_OUTCOMES}post_filter_decides_what"
_POST += "_rejected_pods_wait_for"
_CANNOT = f"{_PREEMPTION}group_that_may_not_or_cannot_preempt_says_why"
_MIXED, _JOINS = f"{_CYCLE}group_of_unequal_pods_is_an_error", f"{_ROWS}new_pod_joins_its_group"

#: Rows that have no test, since the situation cannot arise.
_LIVE = "none: the walk reads the live tables, there is no snapshot that can fail or differ"
_ONE_WALK = "none: each pod of the cycle has a result"

#: The rows of each table: what happens, and the tests of it.
ROWS: dict[str, dict[str, list[str]]] = {
    "the queue holds entities": {
        "a group is one entry with all its pods": [f"{_QUEUE}group_is_popped_with_all_its_pods"],
        "so is a tree": [f"{_QUEUE}root_is_popped_with_the_pods_of_all_its_groups"],
        "entries are ordered by the priority of the group, then by time": [
            f"{_ROWS}groups_and_pods_are_ordered_by_priority_and_then_by_the_time_they_came"
        ],
        "members are ordered by priority, attempts and time": [
            "core/queue/test_queued_group.py::test_members_are_in_order_of_priority_then_attempts_then_time"
        ],
        "attempts are counted for the entry and for each member": [
            f"{_ROWS}attempts_are_counted_for_the_group_and_for_each_pod"
        ],
        "incomplete and pending pods are in queues of their own": [
            f"{_ROWS}deleted_pod_is_neither_incomplete_nor_pending_any_more"
        ],
    },
    "what happens to the queue": {
        "pod added, group unknown: incomplete; group added: its pods enter": [
            f"{_QUEUE}pods_whose_group_is_unknown_are_incomplete"
        ],
        "the same in a tree": [f"{_QUEUE}pods_are_incomplete_until_the_last_group_above_them_is_known"],
        "pod added to an active group: active": [f"{_JOINS}[active]"],
        "pod added to a group backing off: the same until its backoff is over": [
            f"{_JOINS}[backoff]",
            f"{_JOINS}[backoff after an error]",
        ],
        "pod added to a group that waits: its gates are asked, and it backs off or is active": [
            f"{_JOINS}[waits]",
            f"{_JOINS}[waited]",
        ],
        "pod added to a gated group: its gates are asked": [
            f"{_JOINS}[gated]",
            f"{_ROWS}new_pod_joins_a_group_whose_gate_opened_unnoticed_and_both_are_active",
        ],
        "pod added while its group is tried: pending": [
            f"{_QUEUE}pod_that_comes_during_the_cycle_of_its_group_is_pending",
            f"{_QUEUE}pod_of_another_group_that_comes_during_the_cycle_of_its_root_is_pending",
        ],
        "group updated: the entry has the new object": [f"{_QUEUE}group_with_a_new_object_is_popped_with_it"],
        "group deleted: its pods are incomplete": [
            f"{_ROWS}pods_of_a_group_that_is_deleted_and_made_again_enter_anew",
            f"{_QUEUE}pods_below_a_deleted_group_are_incomplete_and_the_others_stay",
        ],
        "pod deleted: it leaves, and the last one ends the entry": [
            f"{_ROWS}deleted_pod_leaves_its_group_wherever_that_waits"
        ],
        "one gated pod gates the group": [
            f"{_QUEUE}gate_of_one_pod_holds_the_group_back",
            f"{_ROWS}gated_pod_gates_the_group_that_it_joins",
        ],
        "event: the strongest answer for any member counts": [
            f"{_ROWS}strongest_answer_for_any_pod_of_a_group_counts",
            f"{_QUEUE}event_for_one_pod_requeues_its_whole_root",
        ],
        "pod activated: its group is": [f"{_QUEUE}activated_pod_activates_its_group"],
        "event during the cycle: not lost, unlike in kube-scheduler": [
            f"{_QUEUE}event_during_the_cycle_of_a_group_is_not_lost"
        ],
    },
    "after the cycle": {
        "no pod left: the entry leaves": [f"{_AFTER}[nothing left]"],
        "group deleted meanwhile: pods are incomplete": [
            f"{_QUEUE}group_deleted_during_its_cycle_leaves_incomplete_pods"
        ],
        "success, some pods left or come: active at once, counts 0": [
            f"{_AFTER}[scheduled in part]",
            f"{_AFTER}[scheduled, and one came]",
            f"{_AFTER}[the same, and one came]",
        ],
        "success, all pods failed afterwards: they wait, unlike in kube-scheduler": [
            f"{_AFTER}[scheduled, but all failed then]"
        ],
        "time kept if an attempted pod is left, else now": [
            f"{_ROWS}left_group_keeps_its_time_if_a_pod_of_it_was_attempted"
        ],
        "rejected: waits for events, unlike in kube-scheduler": [
            f"{_AFTER}[rejected]",
            f"{_AFTER}[rejected, and one came]",
        ],
        "rejected again: backs off longer": [f"{_ROWS}rejected_group_backs_off_longer_each_time"],
        "error: backs off": [f"{_AFTER}[error]"],
    },
    "GangScheduling": {
        "PreEnqueue, group unknown": [f"{_GANG}pod_waits_for_its_group"],
        "PreEnqueue, fewer pods than minCount": [f"{_GANG}pod_waits_until_as_many_as_the_minimum_exist"],
        "PreEnqueue, group can be scheduled": [f"{_GANG}pod_of_a_group_that_can_be_scheduled_is_admitted"],
        "event of a pod: for its group or tree": [f"{_GANG}new_pod_wakes_those_of_its_tree"],
        "event of a group: if it is new or its minimum fell": [
            f"{_GANG}group_wakes_its_pods_if_it_is_new_or_its_minimum_falls",
            f"{_CYCLE}gang_whose_minimum_falls_is_tried_again",
        ],
        "PlacementFeasible: cannot, not yet, yes": [f"{_GANG}gang_is_feasible_from_its_minimum_on"],
        "PlacementFeasible, no minimum: one pod, unlike in kube-scheduler": [
            f"{_GANG}group_without_a_minimum_is_feasible_from_one_part_on"
        ],
        "Permit waits for minCount: pods of a gang are bound together instead": [
            f"{_BINDINGS}pods_are_bound_once_enough_can_be_and_refused_once_too_few_can"
        ],
        "several plugins: the first rejection or error, else the first wait": [
            f"{_POINTS}first_rejection_or_error_of_placement_feasible_counts_else_the_first_wait"
        ],
    },
    "the steps of a cycle": {
        "snapshot cannot be updated, or differs from the entry": [_LIVE],
        "another scheduler name": [f"{_MIXED}[scheduler name of a scheduled pod]"],
        "another priority than the group's": [f"{_MIXED}[priority]", f"{_MIXED}[priority of a scheduled pod]"],
        "another preemption policy": [f"{_MIXED}[policy]"],
        "another preemption policy than the group's": [
            f"{_MIXED}[policy of pods and group]",
            f"{_MIXED}[policy of group and pods]",
        ],
        "no profile of that name": ["none: pods without a profile are left to other schedulers"],
        "deleted pods are left out": [f"{_CYCLE}deleted_member_is_left_out_and_the_others_are_scheduled"],
        "no pods left: done": [f"{_CYCLE}group_whose_pods_are_all_being_deleted_is_not_tried"],
        "rejected root: PodGroupPostFilter in order": [
            f"{_POINTS}pod_group_post_filter_ends_with_the_first_plugin_that_finds_a_way_out"
        ],
        "all is undone that was placed": [f"{_CYCLE}gang_that_does_not_fit_gives_all_its_room_back"],
    },
    "the walk": {
        "hopeless before the first pod": [f"{_WALKED}[never enough]"],
        "error before the first pod": [f"{_WALKED}[error before a pod]"],
        "each pod sees those before it": [
            f"{_CYCLE}members_see_what_members_before_them_take",
            f"{_STORIES}affinity_and_claims.py::test_anti_affinity_of_a_pod_placed_before_is_kept",
            f"{_STORIES}affinity_and_claims.py::test_claim_for_one_pod_is_not_shared_by_pods_of_a_group",
        ],
        "no PostFilter for members": [f"{_STORIES}pod_group.py::test_post_filter_is_not_called_for_pods_of_a_group"],
        "Reserve rejects a pod: only that one fails": [
            f"{_CYCLE}member_that_reserve_rejects_fails_alone_and_gives_its_room_back"
        ],
        "error of a pod: of the group": [f"{_POD}[error]", f"{_POD}[error in Reserve]"],
        "error after a pod": [f"{_WALKED}[error after it]"],
        "another code": [f"{_WALKED}[a code that is none of these]"],
        "rejected after a pod: the walk stops": [f"{_WALKED}[stops early]"],
        "waits after a pod: the walk goes on": [f"{_WALKED}[enough at last]", f"{_WALKED}[one may fail]"],
        "waits after the last pod: rejected": [f"{_WALKED}[waits at the end]"],
        "no plugin objects: success": [f"{_WALKED}[no plugin objects]"],
        "no pod placed: rejected": [f"{_WALKED}[nothing placed]"],
        "no group state": [_LIVE],
        "nominations last while victims leave": [
            f"{_STORIES}preemption.py::test_nominations_last_while_victims_leave_though_a_better_node_is_free"
        ],
    },
    "the outcome of each pod": {
        "group scheduled, pod placed: bound": [f"{_POD}[scheduled]"],
        "group scheduled, pod failed: its own failure": [
            f"{_POD}[scheduled, one does not fit]",
            f"{_POD}[scheduled, Reserve rejects one]",
        ],
        "group waits for a preemption: nominated": [f"{_POST}[nominations]"],
        "group rejected: own failure, or the group's": [f"{_POD}[rejected: placed, unfit twice, not reached]"],
        "results missing, or another code": [_ONE_WALK],
        "condition: True once, and it stays so": [f"{_CONDITIONS}condition_is_written_when_it_changes_and_stays_true"],
        "condition: of its generation, with the time of its status": [
            f"{_CONDITIONS}time_of_a_condition_is_that_of_its_status"
        ],
        "pods that come later count the scheduled ones": [f"{_LATE}late_pod_of_a_running_gang_starts_alone"],
        "initially: nothing about later losses": [f"{_LATE}gang_that_lost_pods_was_scheduled_initially_all_the_same"],
    },
    "preemption of a group": {
        "a pod never preempts": [f"{_CANNOT}[never]"],
        "victims are still leaving": [f"{_PREEMPTION}group_that_is_tried_while_victims_leave_keeps_its_nominations"],
        "nothing of lower priority": [f"{_CANNOT}[no victims]"],
        "not enough even without all of it": [f"{_CANNOT}[not enough]"],
        "found: text and victims": [f"{_PREEMPTION}gang_preempts_for_all_its_pods_and_follows_the_victims"],
        "with a topology constraint": [f"{_STORIES}pod_group.py::test_gang_preempts_the_least_important_pods_only"],
        "a pod of a group has the group's priority": [f"{_UNITS}priority_of_a_running_member_is_that_of_its_group"],
        "one walk: pods on other nodes stay": [f"{_PREEMPTION}pods_on_other_nodes_stay"],
        "violating units come back first": [f"{_PREEMPTION}pod_of_a_budget_is_spared_if_another_one_can_leave"],
        "important units come back first": [f"{_PREEMPTION}least_important_pods_leave"],
        "a unit that breaks a rule of a placed pod is a victim": [
            f"{_STORIES}preemption.py::test_pod_that_breaks_a_rule_of_a_member_is_a_victim_though_there_is_room"
        ],
        "Reserve counts while units come back": [f"{_STORIES}preemption.py::test_reserve_counts_while_pods_come_back"],
        "placed pods are nominated": [
            f"{_PREEMPTION}members_wait_nominated_and_are_gated_until_the_victims_leave",
            f"{_PREEMPTION}freed_room_is_kept_from_late_pods_of_lower_priority",
        ],
        "for all pods that can be placed": [
            f"{_PREEMPTION}gang_preempts_for_all_pods_that_can_be_placed_not_only_for_its_minimum"
        ],
        "for the rest of a scheduled group": [f"{_PREEMPTION}left_members_of_a_scheduled_gang_preempt"],
        "events name the group": [f"{_TREES}tree_preempts_for_all_its_groups_and_follows_the_victims"],
        "members are gated meanwhile": [f"{_PREEMPTION}members_are_gated_while_the_api_evicts_their_victims"],
        "importance: trees, groups, pods": [f"{_TREES}whole_trees_are_more_important_than_groups_and_these_than_pods"],
        "its text is added to the group's": [
            f"{_POST}[no way out, and why]",
            f"{_POST}[none at all]",
            f"{_POST}[under way]",
            f"{_POST}[no way out]",
        ],
        "error of the post-filter: of the group": [f"{_POST}[error]"],
    },
    "groups as victims of pods": {
        "whole group: all its pods go, from all nodes": [f"{_UNITS}whole_group_leaves_all_its_nodes"],
        "other group: one pod": [f"{_UNITS}group_that_is_not_preempted_as_a_whole_loses_one_pod"],
        "all its pods count as victims": [f"{_UNITS}all_pods_of_a_whole_group_count_as_victims"],
        "budgets count all its pods": [f"{_UNITS}budget_of_one_pod_guards_its_whole_group"],
        "more important than a pod of its priority": [
            f"{_UNITS}whole_group_is_more_important_than_a_pod_of_its_priority"
        ],
    },
}


def rows_with_tests() -> Iterator[tuple[str, str]]:
    for rows in ROWS.values():
        for row, tests in rows.items():
            yield from ((row, test) for test in tests if not test.startswith("none: "))


@pytest.mark.parametrize("test", [pytest.param(test, id=f"{row}: {test}") for row, test in rows_with_tests()])
def test_test_of_a_row_runs_with_all_others(test: str) -> None:
    file, name, case = re.fullmatch(r"(\S+)\.py::(\w+)(?:\[(.+)\])?", test).groups()  # type: ignore[union-attr]  # a name without a match fails
    function = getattr(importlib.import_module(f"tests.{file.replace('/', '.')}"), name)
    marks = getattr(function, "pytestmark", [])
    assert {mark.name for mark in marks} <= {"parametrize"}, "it is not run each time"
    cases = [getattr(each, "id", None) for mark in marks for each in mark.args[1]]
    assert case is None or case in cases


def test_each_test_is_that_of_one_row() -> None:
    assert [test for test, count in Counter(test for _, test in rows_with_tests()).items() if count > 1] == []
