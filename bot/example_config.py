"""The commented interlock.toml that `interlock init` writes; a test loads it."""

EXAMPLE = """\
# Interlock. Secrets never stand here: set them in the environment, or name a file that holds one
# in NAME_FILE (OPENAI_API_KEY, SLACK_BOT_TOKEN, SLACK_APP_TOKEN, SLACK_SIGNING_SECRET).

# Where everything is kept. SQLite needs no service; PostgreSQL needs the extra "postgres":
# database = "postgresql://interlock@localhost/interlock"
database = "sqlite:///interlock.db"

# An agent: its model, what it is told, and its tools (module:name, or the built-in ask_user).
[agents.ops]
model = "openai:gpt-5"
# base_url = "http://127.0.0.1:11434/v1"   # any server that speaks OpenAI's chat completions
instructions = "You help the on-call team. Look before you act, and say what you found."
tools = ["examples.incident:service_status", "examples.incident:restart_service", "ask_user"]

# Who may approve what: the first policy that covers a tool counts. A tool that asks and that no
# policy covers can be approved by nobody, and the bot refuses to start.
# A person is surface:organisation/user: in Slack the workspace's id and the user's id.
[[policies]]
name = "on-call"
tools = ["restart_*"]
approvers = ["slack:T0123456789/U0123456789", "console:local/ana"]
self_approval = false   # whether the person who asked the agent may approve
# ask = true            # ask for these tools even where the tool itself would not
# remember = false      # do not let a tool run without asking for the rest of a thread
# remind_after = "30m"  # remind the approvers, then again after twice as long
# escalate_after = "2h" # let those of escalate_to approve too
# escalate_to = ["slack:T0123456789/U0987654321"]
# expires_after = "8h"  # then it does not run; without this it waits for ever
# hours = "office"      # count these times in working hours only
# rule_makers = ["slack:T0123456789/U0123456789"]   # people who may make other standing rules
#
# [hours.office]
# zone = "Europe/Berlin"
# opens = "9:00"
# closes = "17:30"
# days = ["mon", "tue", "wed", "thu", "fri"]

# A standing rule (docs/install.md): allow, ask or deny, where and for which arguments.
# [[rules]]
# tool = "restart_service"
# effect = "deny"
# where = "slack"
# when = [{ argument = "service", equals = "billing" }]

# An MCP server whose tools the agent may use, as NAME__TOOL (docs/mcp.md); they ask for approval
# unless you say otherwise. Name it under servers = ["clock"] of an agent.
# [servers.clock]
# command = ["mcp-server-time", "--local-timezone", "UTC"]

# Slack: Socket Mode when SLACK_APP_TOKEN is set, else signed HTTP at /slack/events.
[surfaces.slack]
agent = "ops"

# Microsoft Teams, at /api/messages of the web server; TEAMS_APP_PASSWORD is its secret.
# [surfaces.teams]
# agent = "ops"
# app_id = "11111111-2222-3333-4444-555555555555"   # of your Azure Bot
# tenant = "aaaaaaaa-0000-0000-0000-00000000000a"   # that it is registered in
# [surfaces.teams.package]                           # of `interlock teams package`
# website = "https://wiki.example.com/interlock"     # tells your people about the bot

# The web server: /healthz, /readyz, and /slack/events in HTTP mode.
[server]
host = "127.0.0.1"
port = 8080
"""
