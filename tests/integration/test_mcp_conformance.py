"""The protocol's own suite against our client, in short; `make conformance` runs all of it.

The suite comes from npm into ~/.cache/interlock-tests; where that cannot be, its tests skip."""

from __future__ import annotations

import pytest

from tests.conformance.run import NotInstalled, Suite, installed, judged


@pytest.fixture(scope="module")
def suite() -> Suite:
    try:
        return installed()
    except NotInstalled as error:
        pytest.skip(f"no conformance suite: {error}")


@pytest.mark.parametrize(
    "scenario",
    [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "json-schema-ref-no-deref",
        "auth/client-credentials-basic",
    ],
)
def test_the_suite_lets_our_client_pass(scenario: str, suite: Suite) -> None:
    verdict = judged(suite, scenario)
    assert verdict.passed, verdict.report + verdict.said
    assert verdict.applies


def test_a_result_without_a_type_is_complete(suite: Suite) -> None:
    """The suite only sees that such a call is not repeated; what the model gets is on our side."""
    verdict = judged(suite, "sep-2322-client-request-state")
    assert verdict.passed, verdict.report + verdict.said
    assert "Done(result='no-result-type-test-ok', failed=False" in verdict.said
    assert "Done(result='echo-state-ok', failed=False" in verdict.said
