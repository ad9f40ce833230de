"""An incident agent's tools: one that looks, one that acts, one that asks."""

from bot import Call, Choice, Field, FieldType, ToolFailed, tool

SERVICES = {"checkout": "slow", "search": "healthy"}


@tool(approval="never", idempotent=True)
async def service_status(service: str) -> str:
    """Tells how a service is doing. Looking has no effect, so nobody is asked."""
    if service not in SERVICES:
        raise ToolFailed(f"There is no service {service}; there are {', '.join(SERVICES)}.")
    return f"{service} is {SERVICES[service]}"


@tool
async def restart_service(service: str, reason: str) -> str:
    """Restarts a service. It has an effect, so a person approves it first (the default)."""
    if service not in SERVICES:
        raise ToolFailed(f"There is no service {service}; there are {', '.join(SERVICES)}.")
    SERVICES[service] = "healthy"
    return f"{service} was restarted: {reason}"


@tool(approval=lambda args: True if args.minutes <= 15 else None)
async def silence_alerts(service: str, minutes: int = 10) -> str:
    """Silences the alerts of a service. A quarter of an hour needs no approval; longer does."""
    return f"alerts of {service} are silent for {minutes} minutes"


@tool(approval="never")
async def open_ticket(call: Call, service: str) -> str:
    """Opens a ticket, after asking the people of the thread what belongs in it."""
    answers = await call.ask(
        f"A ticket for {service}:",
        Field(
            "severity",
            title="Severity",
            choices=[Choice("low", "Low"), Choice("high", "High", "Customers notice")],
        ),
        Field("summary", title="Summary", max_length=200),
        Field("customers", FieldType.INTEGER, title="Customers affected", minimum=0, default=0),
    )
    if answers is None:
        return "nobody wanted a ticket"

    async def file() -> str:
        return f"ticket for {service}: {answers['severity']}, {answers['summary']}"

    return str(await call.once("file", file))
