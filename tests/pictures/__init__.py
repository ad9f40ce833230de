"""Everything that Slack and Teams are shown, drawn to PNG to be looked at: `make pictures`."""
