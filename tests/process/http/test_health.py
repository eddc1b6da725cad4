"""Whether a server is well, in the words of Kubernetes' servers."""

from __future__ import annotations

import pytest

from kframework.process.http.health import PLAIN, Check, check_health, health_of


def checks(**problems: str | None) -> list[Check]:
    return [Check(name.replace("_", "-"), lambda problem=problem: problem) for name, problem in problems.items()]  # type: ignore[misc]  # a default binds the loop's


WELL = checks(ping=None, shutdown=None)
ILL = checks(ping=None, sched_handler_sync="handlers are not fully synchronized", log=None)
VERBOSE = ("verbose", "")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ([], "ok"),
        ([("exclude", "ping")], "ok"),
        ([VERBOSE], "[+]ping ok\n[+]shutdown ok\nreadyz check passed\n"),
        ([("verbose", "false")], "[+]ping ok\n[+]shutdown ok\nreadyz check passed\n"),
        ([VERBOSE, ("exclude", "ping")], "[+]ping excluded: ok\n[+]shutdown ok\nreadyz check passed\n"),
        (
            [VERBOSE, ("exclude", "ping"), ("exclude", "shutdown")],
            "[+]ping excluded: ok\n[+]shutdown excluded: ok\nreadyz check passed\n",
        ),
        (
            [VERBOSE, *(("exclude", each) for each in ("e", 'b"', "a", "a", "c"))],
            """\
[+]ping ok
[+]shutdown ok
warn: some health checks cannot be excluded: no matches for "a","b\\"","c","e"
readyz check passed
""",
        ),
    ],
)
def test_healthy_server_answers_ok(query: list[tuple[str, str]], text: str) -> None:
    response = check_health("readyz", WELL, query)
    assert (response.status, response.body.decode(), response.headers) == (200, text, PLAIN)


@pytest.mark.parametrize(
    ("query", "log"),
    [([], "[+]log ok"), ([("exclude", "log")], "[+]log excluded: ok")],
)
def test_unhealthy_server_always_names_the_failed_check(query: list[tuple[str, str]], log: str) -> None:
    response = check_health("readyz", ILL, query)
    text = f"[+]ping ok\n[-]sched-handler-sync failed: reason withheld\n{log}\nreadyz check failed\n"
    assert (response.status, response.body.decode(), response.headers) == (500, text, PLAIN)


def test_public_reason_is_not_withheld() -> None:
    response = check_health("readyz", [Check("plugins", lambda: "one is late", withheld=False)], [])
    assert response.body == b"[-]plugins failed: one is late\nreadyz check failed\n"


def test_single_check_is_served() -> None:
    well, ill = (health_of(check) for check in ILL[:2])
    assert (well.status, well.body) == (200, b"ok")
    assert (ill.status, ill.body) == (500, b"internal server error: handlers are not fully synchronized\n")


def test_excluded_check_is_not_run() -> None:
    def never() -> str | None:
        raise AssertionError

    assert check_health("livez", [Check("costly", never)], [("exclude", "costly")]).status == 200


def test_checks_run_together_are_reported() -> None:
    told: list[tuple[str, str, str | None]] = []
    check_health("readyz", ILL, [("exclude", "log")], lambda *check: told.append(check))
    assert told == [("readyz", "ping", None), ("readyz", "sched-handler-sync", "handlers are not fully synchronized")]


def test_failed_check_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="kframework"):
        check_health("readyz", ILL, [])
    assert caplog.messages == ["readyz check failed: sched-handler-sync: handlers are not fully synchronized"]
