"""A plugin of pytest that leaves out what has passed, and writes down what passes.

BEFORE names a file of node ids, which stays as it is while the tests run; NOW the file
to which a line is added as soon as a test has passed. Why a test failed is written at
once to NOW.failed: where time is up, pytest does not say it.
"""

import os
import pathlib

from tests.support import skips

BEFORE, NOW = "TEST_ALL_BEFORE", "TEST_ALL_NOW"


def pytest_collection_modifyitems(config, items):
    passed = set(pathlib.Path(os.environ[BEFORE]).read_text().splitlines())
    config.hook.pytest_deselected(items=[i for i in items if i.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


def failures(now):
    return now.with_suffix(".failed")


class Writer:
    """Of the process that hears of all tests."""

    def __init__(self, path):
        self._path = path
        self._good = set()

    def pytest_runtest_logreport(self, report):
        if report.failed:
            with failures(self._path).open("a") as file:
                file.write(f"{report.nodeid}, {report.when}\n{report.longreprtext}\n")
        reason = skips.reason_of(report)
        if reason is None:
            good = report.when == "call" and not report.failed
        else:
            good = skips.allowed(reason)
        if good:
            self._good.add(report.nodeid)
        if report.when == "teardown" and report.passed and report.nodeid in self._good:
            with self._path.open("a") as file:
                file.write(f"{report.nodeid}\n")


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Writer(pathlib.Path(os.environ[NOW])))
