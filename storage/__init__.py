"""Rows and transactions: the floor that knows SQLAlchemy and nothing above it.

One module per noun. Functions take the running transaction (`Tx`) first, so that a decision in
`bot/` can join several of them in its one named transaction.
"""
