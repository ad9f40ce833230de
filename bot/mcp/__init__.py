"""Tools, questions and tasks of MCP servers.

`settings` is what an operator writes about a server, `connection` carries requests to it,
`extension` is our half of its tasks; the other modules turn its words into ours. Nothing outside
this package imports the SDK.
"""
