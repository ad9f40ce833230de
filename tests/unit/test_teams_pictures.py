"""The cards that `make pictures` draws."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.teams import cards
from tests.fakes.teams.cards import elements
from tests.pictures import teams_scenes
from tests.pictures.scenes import FORM


def test_teams_would_take_every_card_that_is_pictured() -> None:
    assert teams_scenes.wrong() == {}


@pytest.mark.parametrize("field", FORM.fields, ids=lambda field: field.name)
def test_a_form_names_each_of_its_fields_once(field: Any) -> None:
    said = [
        text
        for one in elements(cards.draw(FORM, teams_scenes.THREAD))
        for text in (one.get("label"), one.get("text"))
        if text == field.label
    ]
    assert said == [field.label]
