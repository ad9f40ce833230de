"""Clicks and modals of Slack, read: who pressed what about which question, or refused."""

from typing import Any

import pytest

from adapters.slack.events import (
    Identity,
    Malformed,
    Person,
    click,
    page,
    submission,
    turned,
)
from bot.surface import Place

ME = Identity("T1", "U_BOT", "B_BOT")


def pressed(**given: Any) -> dict[str, Any]:
    return {
        "type": "block_actions",
        "user": {"id": "U_ANA", "team_id": "T1"},
        "container": {"type": "message", "message_ts": "2.000000", "thread_ts": "1.000000"},
        "channel": {"id": "C_OPS"},
        "trigger_id": "1.2.3",
        "response_url": "https://hooks.test/1",
        "actions": [{"action_id": "interlock.approve", "value": "n0nce"}],
    } | given


def test_a_click_names_the_question_by_its_nonce_and_the_thread_by_its_message() -> None:
    found = click(pressed(), ME)
    assert (found.action, found.nonce) == ("approve", "n0nce")
    assert found.place == Place("slack", "T1", "C_OPS", "1.000000")
    assert found.person == Person("U_ANA", "T1")


def test_a_click_on_a_message_without_a_thread_is_at_that_message() -> None:
    found = click(pressed(container={"type": "message", "message_ts": "2.000000"}), ME)
    assert found.place == Place("slack", "T1", "C_OPS", "2.000000")


@pytest.mark.parametrize(
    ("thread", "at_root"),
    [({}, True), ({"thread_ts": "2.000000"}, True), ({"thread_ts": "1.000000"}, False)],
)
def test_a_click_says_whether_its_message_stands_in_a_thread(
    thread: dict[str, str], at_root: bool
) -> None:
    container = {"type": "message", "message_ts": "2.000000"} | thread
    assert click(pressed(container=container), ME).at_root is at_root


def test_a_click_in_a_modal_has_no_place() -> None:
    assert click(pressed(container={"type": "view"}, channel=None), ME).place is None


@pytest.mark.parametrize(
    ("number", "read"),
    [("3", 3), ("", 1), ("0", 1), ("-1", 1), ("١", 1), ("99999", 1), (None, 1), (7, 1)],
)
def test_a_click_on_a_home_page_has_no_place_and_names_the_page(number: Any, read: int) -> None:
    view = {"type": "home", "private_metadata": number}
    found = click(pressed(container={"type": "view"}, channel=None, view=view), ME)
    assert (found.place, found.home) == (None, read)
    assert page(number) == read


def test_a_click_elsewhere_is_on_no_home_page() -> None:
    modal = {"type": "modal", "id": "V1", "private_metadata": "3"}
    assert click(pressed(container={"type": "view"}, view=modal), ME).home is None
    assert click(pressed(), ME).home is None


def test_a_button_of_somebody_else_names_no_action() -> None:
    assert click(pressed(actions=[{"action_id": "approve"}]), ME).action == ""


@pytest.mark.parametrize(
    "given",
    [
        {"type": "message_action"},
        {"actions": []},
        {"actions": [7]},
        {"actions": [{"action_id": 7}]},
        {"actions": [{"action_id": "interlock.approve", "value": ["n"]}]},
        {"user": None},
        {"user": {"id": "<@U>"}},
        {"channel": {"id": "../x"}},
        {"container": {"type": "message", "message_ts": "now"}},
        {"trigger_id": {"a": 1}},
    ],
)
def test_a_malformed_click_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        click(pressed(**given), ME)


def test_a_malformed_modal_is_refused() -> None:
    good = {
        "type": "view_submission",
        "user": {"id": "U_ANA", "team_id": "T1"},
        "view": {
            "callback_id": "interlock.form",
            "private_metadata": "n0nce",
            "state": {"values": {}},
        },
    }
    assert submission(good).nonce == "n0nce"
    wrong: list[dict[str, object]] = [
        {"view": None},
        {"user": {}},
        {"type": "view_closed"},
        {"view": {"state": 1}},
    ]
    for broken in wrong:
        with pytest.raises(Malformed):
            submission(good | broken)


def test_a_click_in_a_modal_names_the_modal_and_what_we_wrote_into_it() -> None:
    view = {"type": "modal", "id": "V1", "private_metadata": "n0nce"}
    container = {"type": "view", "view_id": "V1"}
    found = click(pressed() | {"container": container, "view": view}, ME)
    assert (found.view, found.about, found.place) == ("V1", "n0nce", None)
    home = click(pressed() | {"container": container, "view": view | {"type": "home"}}, ME)
    assert (home.view, home.about) == ("", "")
    assert click(pressed(), ME).view == ""


@pytest.mark.parametrize("given", [{"id": None}, {"private_metadata": ["n"]}])
def test_a_click_in_a_malformed_modal_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        click(pressed() | {"view": {"type": "modal", "id": "V1"} | given}, ME)


def selecting(menu: Any) -> dict[str, Any]:
    """A press in a message whose menu is in this state."""
    return {
        "type": "block_actions",
        "user": {"id": "U_BEN", "team_id": "T1"},
        "channel": {"id": "C_OPS"},
        "container": {"type": "message", "message_ts": "2.000000", "thread_ts": "1.000000"},
        "actions": [{"action_id": "interlock.approve_selected", "value": "n"}],
        "state": {"values": {"b": {"other": {"type": "x"}}, "c": {"interlock.select": menu}}},
    }


def test_what_is_selected_in_a_message_comes_with_the_click() -> None:
    options = [{"value": "n1", "text": {"type": "plain_text", "text": "1"}}, {"value": "n2"}]
    pressed = click(selecting({"selected_options": options}), ME)
    assert (pressed.action, pressed.nonce, pressed.selected) == (
        "approve_selected",
        "n",
        ("n1", "n2"),
    )
    assert click(selecting({"selected_options": []}), ME).selected == ()
    assert click(selecting(None) | {"state": {"values": {}}}, ME).selected == ()
    assert click(selecting(None) | {"state": None}, ME).selected == ()


@pytest.mark.parametrize(
    "menu",
    [
        7,
        [],
        {},
        {"selected_options": "n1"},
        {"selected_options": ["n1"]},
        {"selected_options": [{"value": 7}]},
        {"selected_options": [{}]},
    ],
)
def test_a_selection_in_a_shape_that_slack_does_not_send_is_refused(menu: Any) -> None:
    with pytest.raises(Malformed):
        click(selecting(menu), ME)


@pytest.mark.parametrize("state", [7, ["x"], {"x": 1}, {"values": []}, {"values": {"b": 7}}])
def test_a_state_in_a_shape_that_slack_does_not_send_is_refused(state: Any) -> None:
    with pytest.raises(Malformed):
        click(selecting(None) | {"state": state}, ME)


@pytest.mark.parametrize("value", ["0", "-1", "x", "99999", "", "１"])
def test_a_page_that_is_no_number_is_refused(value: str) -> None:
    turn = pressed(actions=[{"action_id": "interlock.page.next", "value": value}])
    with pytest.raises(Malformed):
        turned(turn | {"view": {"id": "V1"}}, ME)
