"""A typed async function as a tool: its schema, its arguments, its results and its asks."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal

import pydantic
import pytest

from bot.field import Field
from bot.question import Asked
from bot.tool import (
    RESULT_LIMIT,
    Ask,
    BadArguments,
    Call,
    Done,
    InputRequired,
    NobodyToAsk,
    Outcome,
    Recorded,
    Suspend,
    Tool,
    ToolFailed,
    tool,
)
from storage.database import canonical

SEAT = Field("seat", choices=["window", "aisle"])
MEAL = Field("meal")


class Address(pydantic.BaseModel):
    street: str
    number: int = 1


@dataclass
class Book:
    """A journal in memory."""

    steps: dict[str, Any] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    async def step(self, key: str) -> tuple[bool, Any]:
        return key in self.steps, self.steps.get(key)

    async def record_step(self, key: str, value: Any) -> None:
        self.steps[key] = value

    async def progress(self, text: str) -> None:
        self.told.append(text)

    async def ask(self, asked: Asked, ordinal: int) -> str:
        raise AssertionError("a tool of ours leaves to ask")

    async def answer(self, question_id: str) -> None:
        raise AssertionError("a tool of ours leaves to ask")


def a_call(*recorded: Recorded, book: Book | None = None) -> Call:
    return Call(
        id="call", tool="t", requester="slack:T1/ANA", journal=book or Book(), recorded=recorded
    )


async def run(one: Tool, *recorded: Recorded, book: Book | None = None, **args: Any) -> Outcome:
    return await one.run(one.validate(args), a_call(*recorded, book=book))


# Definition


def test_the_schema_is_the_signature_without_the_call() -> None:
    @tool
    async def book(
        call: Call,
        to: str,
        seats: Annotated[int, pydantic.Field(ge=1, description="How many")] = 1,
        by: Literal["air", "rail"] = "rail",
    ) -> str:
        """Books a trip.

        Asks for the seats."""
        return to

    assert book.name == "book"
    assert book.description == "Books a trip.\n\nAsks for the seats."
    assert book.takes_call
    assert book.approval == "always"
    assert not book.idempotent
    assert book.parameters["required"] == ["to"]
    assert book.parameters["additionalProperties"] is False
    assert set(book.parameters["properties"]) == {"to", "seats", "by"}
    assert book.parameters["properties"]["seats"]["minimum"] == 1
    assert book.parameters["properties"]["seats"]["description"] == "How many"
    assert book.parameters["properties"]["by"]["enum"] == ["air", "rail"]


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    @tool
    async def ping() -> str:
        return "pong"

    assert ping.parameters["properties"] == {}
    assert ping.description == ""
    assert ping.validate("") == ping.validate("{}") == ping.validate({}) == {}


def test_what_cannot_be_a_tool_is_refused_at_its_definition() -> None:
    def plain(order: str) -> str:
        return order

    async def untyped(order) -> None:  # type: ignore[no-untyped-def]
        ...

    async def rest(*orders: str) -> None: ...

    async def more(**orders: str) -> None: ...

    async def positional(order: str, /) -> None: ...

    with pytest.raises(TypeError, match="plain must be an async function"):
        tool(plain)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="order of the tool untyped has no type"):
        tool(untyped)
    for function in (rest, more, positional):
        with pytest.raises(TypeError, match="must name each of its parameters"):
            tool(function)


@pytest.mark.parametrize("name", ["a b", "a/b", "é", "x" * 65, "`id`"])
def test_a_name_no_provider_takes_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="letters, digits"):
        effect(name)


def effect(name: str = "run", text: str = "Runs.") -> Tool:
    async def run(order: str = "A1") -> str:
        return order

    run.__doc__ = text
    return tool(name=name)(run)


@pytest.mark.row("D25")
def test_the_schema_digest_tells_a_changed_tool() -> None:
    async def run(order: str = "A2") -> str:
        """Runs."""
        return order

    assert effect().schema_digest == effect().schema_digest
    changed = [effect("other"), effect(text="Runs twice."), tool(run)]
    assert effect().schema_digest not in {one.schema_digest for one in changed}


async def test_a_tool_is_called_like_its_function() -> None:
    @tool
    async def double(number: int) -> int:
        return 2 * number

    assert await double(4) == await double(number=4) == 8


@pytest.mark.parametrize("name", ["schema", "json", "copy", "validate"])
def test_a_parameter_may_have_any_name(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"async def query({name}: str) -> str: return {name}", scope)

    assert tool(scope["query"]).validate({name: "x"}) == {name: "x"}


# Arguments


@tool
async def pay(
    to: str, amount: int = 5, on: date = date(2026, 1, 2), at: Address | None = None
) -> str:
    """Pays."""
    return f"{to} {amount} {on.year} {at.street if at else '-'}"


@pytest.mark.row("B53")
@pytest.mark.parametrize("given", [{"to": "ann", "amount": "0090"}, '{"to":"ann","amount":"0090"}'])
def test_arguments_become_the_values_that_run(given: Any) -> None:
    assert pay.validate(given) == {"to": "ann", "amount": 90, "on": "2026-01-02", "at": None}


def test_nested_arguments_get_their_defaults_too() -> None:
    assert pay.validate({"to": "ann", "at": {"street": "Elm"}})["at"] == {
        "street": "Elm",
        "number": 1,
    }


def test_validated_arguments_validate_to_themselves() -> None:
    once = pay.validate({"to": "ann", "amount": 7.0, "at": {"street": "Elm", "number": "3"}})

    assert pay.validate(once) == once


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(BadArguments) as bad:
        pay.validate({"amount": "much", "at": {"number": []}, "extra": 1})

    for words in ("of pay", "to:", "amount:", "at.street:", "at.number:", "extra:"):
        assert words in str(bad.value)


@pytest.mark.parametrize(
    "text", ["nope", "[1]", "null", '"to"', '{"to":', '{"to":"a","amount":NaN}', "{" * 100_000]
)
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(BadArguments, match="of pay"):
        pay.validate(text)


def test_a_fault_does_not_quote_the_value() -> None:
    with pytest.raises(BadArguments) as bad:
        pay.validate({"to": "ann", "amount": "sk-secret"})

    assert "sk-secret" not in str(bad.value)


async def test_the_function_gets_its_own_types() -> None:
    assert await run(pay, to="ann", at={"street": "Elm"}) == Done("ann 5 2026 Elm")


# Results


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        ("text", "text"),
        (None, None),
        (3, 3),
        ((1, 2), [1, 2]),
        ({"a": [True]}, {"a": [True]}),
        (Address(street="Elm"), {"street": "Elm", "number": 1}),
    ],
)
async def test_a_result_is_plain_json(returned: Any, result: Any) -> None:
    @tool
    async def give() -> Any:
        return returned

    assert await run(give) == Done(result)


@pytest.mark.parametrize("returned", [object(), {1, 2}, b"bytes", float("nan"), {"a": object()}])
async def test_a_result_that_is_no_json_says_that_the_tool_ran(returned: Any) -> None:
    @tool
    async def give() -> Any:
        return returned

    outcome = await run(give)

    assert isinstance(outcome, Done)
    assert outcome.failed
    assert outcome.result.startswith("give ran, but what it returned")


async def test_a_result_too_long_for_the_model_is_cut_and_says_so() -> None:
    @tool
    async def give() -> Any:
        return "x" * (RESULT_LIMIT + 1)

    outcome = await run(give)

    assert isinstance(outcome, Done)
    assert not outcome.failed
    assert outcome.result.startswith("x" * RESULT_LIMIT + "\n[give returned 100001 characters")


async def test_a_tool_says_in_its_own_words_why_it_failed() -> None:
    @tool
    async def give() -> Any:
        raise ToolFailed("The order is closed.")

    assert await run(give) == Done("The order is closed.", failed=True)


async def test_any_other_error_is_a_failed_result_with_its_kind() -> None:
    @tool
    async def give() -> Any:
        raise LookupError("A1")

    assert await run(give) == Done("give failed: LookupError: A1", failed=True)


@pytest.mark.parametrize("error", [NobodyToAsk("nobody"), KeyboardInterrupt()])
async def test_what_ends_the_run_passes_through(error: BaseException) -> None:
    @tool
    async def give() -> Any:
        raise error

    with pytest.raises(type(error)):
        await run(give)


# Asks


@tool
async def seat(c: Call) -> str:
    return f"sits {await c.ask('Where?', SEAT)}"


WHERE = Asked("Where?", (SEAT,))
WHAT = Asked("What?", (MEAL,))


async def test_an_ask_leaves_the_tool() -> None:
    assert await run(seat) == Ask((WHERE,), ordinal=0)


async def test_a_recorded_ask_gives_its_answer() -> None:
    assert await run(seat, Recorded(WHERE.fingerprint, "aisle")) == Done("sits aisle")
    assert await run(seat, Recorded(WHERE.fingerprint, None)) == Done("sits None")
    assert await run(seat, Recorded(WHERE.fingerprint, False)) == Done("sits False")


@pytest.mark.row("Q25")
async def test_the_answer_to_another_ask_is_not_used() -> None:
    assert await run(seat, Recorded(WHAT.fingerprint, "fish")) == Ask((WHERE,), ordinal=0)


@pytest.mark.parametrize(
    "other",
    [
        Asked("Where now?", (SEAT,)),
        Asked("Where?", (SEAT, MEAL)),
        Asked("Where?", (Field("seat", choices=["window"]),)),
        Asked("Where?", (Field("seat", choices=["window", "aisle"], required=False),)),
        Asked("Where?", (SEAT,), choosing=True),
        Asked("Where?", url="https://seat.example/"),
    ],
)
def test_whatever_differs_in_an_ask_makes_it_another(other: Asked) -> None:
    assert other.fingerprint != WHERE.fingerprint


@pytest.mark.row("Q20")
async def test_the_second_ask_has_the_next_ordinal() -> None:
    @tool
    async def book(c: Call) -> list[Any]:
        return [await c.ask("Where?", SEAT), await c.ask("What?", MEAL)]

    first = Recorded(WHERE.fingerprint, "aisle")
    assert await run(book) == Ask((WHERE,), ordinal=0)
    assert await run(book, first) == Ask((WHAT,), ordinal=1)
    assert await run(book, first, Recorded(WHAT.fingerprint, "fish")) == Done(["aisle", "fish"])


async def test_an_ask_passes_an_except_exception() -> None:
    @tool
    async def careless(c: Call) -> str:
        try:
            return str(await c.ask("Where?", SEAT))
        except Exception:
            return "swallowed"

    assert await run(careless) == Ask((WHERE,), ordinal=0)


async def test_an_ask_that_a_bare_except_swallowed_is_asked_all_the_same() -> None:
    @tool
    async def careless(c: Call) -> str:
        try:
            return str(await c.ask("Where?", SEAT))
        except BaseException:
            return "swallowed"

    assert await run(careless) == Ask((WHERE,), ordinal=0)
    assert await run(careless, Recorded(WHERE.fingerprint, "aisle")) == Done("aisle")


async def test_an_ask_that_became_another_error_is_asked_all_the_same() -> None:
    @tool
    async def careless(c: Call) -> str:
        try:
            return str(await c.ask("Where?", SEAT))
        except BaseException as error:
            raise RuntimeError("no seat") from error

    assert await run(careless) == Ask((WHERE,), ordinal=0)


async def test_an_ask_in_a_task_group_is_asked() -> None:
    @tool
    async def grouped(c: Call) -> str:
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(c.ask("Where?", SEAT))
        return str(asking.result())

    assert await run(grouped) == Ask((WHERE,), ordinal=0)


async def test_the_first_of_two_swallowed_asks_is_asked_first() -> None:
    @tool
    async def careless(c: Call) -> list[Any]:
        got: list[Any] = []
        for asked in (WHERE, WHAT):
            try:
                got.append(await c.ask(asked.message, *asked.fields))
            except BaseException:
                got.append(None)
        return got

    assert await run(careless) == Ask((WHERE,), ordinal=0)


async def test_no_step_is_made_after_a_swallowed_ask() -> None:
    charged: list[str] = []

    async def charge() -> None:
        charged.append("charged")

    @tool
    async def careless(c: Call) -> None:
        with contextlib.suppress(BaseException):
            await c.ask("May I charge?", SEAT)
        await c.once("charge", charge)

    await run(careless)

    assert charged == []


@pytest.mark.parametrize(
    ("fields", "url"), [((), ""), ((SEAT,), "https://seat.example/")], ids=["neither", "both"]
)
async def test_an_ask_is_a_form_or_a_page(fields: tuple[Field, ...], url: str) -> None:
    with pytest.raises(ValueError, match="address of a page"):
        await a_call().ask("Where?", *fields, url=url)


def test_suspending_is_no_ordinary_exception() -> None:
    assert not issubclass(Suspend, Exception)


@pytest.mark.row("Q19")
async def test_a_call_outside_a_chat_raises_what_is_asked() -> None:
    with pytest.raises(InputRequired, match=r"Where\?") as required:
        await seat()

    assert required.value.questions == (WHERE,)


@pytest.mark.row("M18")
async def test_what_is_asked_outside_a_chat_ends_with_the_address_of_its_page() -> None:
    @tool
    async def visit(c: Call) -> None:
        await c.ask("Pay here:", url="https://pay.example/1")

    with pytest.raises(InputRequired) as required:
        await visit()

    assert str(required.value) == "Pay here: https://pay.example/1"


# Steps


async def test_a_step_is_journaled_and_given_again_without_its_effect() -> None:
    effects: list[str] = []
    book = Book()

    async def charge() -> tuple[str, int]:
        effects.append("charged")
        return ("receipt", len(effects))

    first = await a_call(book=book).once("charge", charge)
    second = await a_call(book=book).once("charge", charge)

    assert first == second == ["receipt", 1]
    assert effects == ["charged"]


async def test_steps_have_their_keys() -> None:
    call = a_call()

    async def one() -> int:
        return 1

    async def two() -> int:
        return 2

    assert [await call.once("one", one), await call.once("two", two)] == [1, 2]


async def test_a_step_that_fails_is_not_journaled() -> None:
    book = Book()

    async def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await a_call(book=book).once("charge", fail)

    assert book.steps == {}


async def test_progress_reaches_the_journal_and_is_nothing_outside_a_chat() -> None:
    book = Book()
    await a_call(book=book).progress("half way")
    await Call(id="", tool="t", requester="").progress("half way")

    assert book.told == ["half way"]


@pytest.mark.parametrize("error", [SystemExit(2), GeneratorExit(), asyncio.CancelledError()])
async def test_a_tool_that_wants_to_end_the_process_only_fails(error: BaseException) -> None:
    @tool
    async def leaves() -> str:
        raise error

    outcome = await run(leaves)
    assert isinstance(outcome, Done)
    assert outcome.failed
    assert type(error).__name__ in outcome.result


async def test_an_end_of_the_run_itself_passes_through_a_tool() -> None:
    @tool
    async def stays() -> str:
        await asyncio.sleep(60)
        return ""

    running = asyncio.create_task(run(stays))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_half_a_character_in_a_result_is_kept() -> None:
    @tool
    async def listing() -> str:
        return "caf\udce9"

    assert await run(listing) == Done("caf\udce9")
    assert canonical("caf\udce9").encode() == b'"caf\\udce9"'


async def test_a_long_error_is_cut() -> None:
    @tool
    async def fails() -> str:
        raise ValueError("x" * 500_000)

    outcome = await run(fails)
    assert isinstance(outcome, Done)
    assert len(outcome.result) < 101_000
