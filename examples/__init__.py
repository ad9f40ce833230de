"""Agents to start from: their tools are plain typed async functions."""
