"""Work that outlives the answer Slack waits for."""

from bot.background import Background as Background
