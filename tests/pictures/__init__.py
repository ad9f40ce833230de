"""Everything that Slack is shown, drawn to PNG to be looked at: `make pictures`."""
