"""A pytest plugin for solved chapters: a cell that runs but writes to stderr, or says "Warning:" anywhere, fails."""

from __future__ import annotations

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    result = yield
    for output in item.test_outputs or []:
        if output["output_type"] == "stream" and (output["name"] == "stderr" or "Warning:" in output["text"]):
            item.fail("Warned", output["text"].strip())
    return result
