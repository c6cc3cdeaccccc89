"""Skips that nobody foresaw fail a run: pytest --no-skips, which CI passes.

What CI installs and builds, it tests; elsewhere what is not there is skipped and said.
"""

import re

import pytest

# What a machine may lack though everything is installed.
ALLOWED = (
    r"real texts and vocabularies are not at .*/shared/data",
    r"the real headlines are in \.\./shared, which is not here",
    r"/bin/sh cannot be another shell for a process: no unshare here",
    r"the page is looked at in Chromium, which is not here",
    r"which processes are there is read from Linux's /proc",
)


def reason_of(report):
    """A report's reason without pytest's own words; None where it is no skip."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return None
    return str(report.longrepr[2]).removeprefix("Skipped: ")


def allowed(reason):
    return any(re.match(pattern, reason) for pattern in ALLOWED)


class NoSkips:
    """Fails a session in which a test was skipped for a reason that is not allowed."""

    def __init__(self):
        self.unforeseen = []

    def pytest_runtest_logreport(self, report):
        reason = reason_of(report)
        if reason is not None and not allowed(reason):
            self.unforeseen.append(f"{report.nodeid}: {reason}")

    pytest_collectreport = pytest_runtest_logreport

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        if self.unforeseen and session.exitstatus in (
            0,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.unforeseen:
            terminalreporter.section("skipped, which --no-skips does not allow")
        for line in self.unforeseen:
            terminalreporter.write_line(line)
