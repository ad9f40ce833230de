import pytest

from bot.field import Field
from bot.question import NotAllowed
from bot.tool import Call, tool
from storage.database import Database
from tests.fakes.model import call
from tests.world import BEN, CYN, only_question, world


async def test_smoke(db: Database) -> None:
    effects: list[str] = []

    @tool
    async def refund(order: str, amount: int = 5) -> str:
        """Refund."""
        effects.append(order)
        return f"refunded {order}"

    @tool(approval="never")
    async def seat(c: Call) -> str:
        """Seat."""
        where = await c.ask("Where?", Field("seat", choices=["window", "aisle"]))
        return f"sits {where}"

    w = world(
        db, ["Let me.", call("refund", order="A1")], call("seat"), "All done", tools=[refund, seat]
    )
    chat = await w.chat()
    await w.settle()
    q = await only_question(chat)
    assert w.surface.cards()[0].open
    with pytest.raises(NotAllowed):
        await q.approve(by=CYN)
    r = await q.approve(by=BEN)
    assert r.first
    assert effects == []
    await w.settle()
    print(w.surface.shown)
    assert effects == ["A1"]
    w = await w.restart()
    chat = w.here(chat)
    q = await only_question(chat)
    await q.answer(" window ", by=BEN)
    await w.settle()
    print([m.body for m in await chat.transcript()])
    assert await chat.last_reply() == "All done"
    print(w.surface.shown)
