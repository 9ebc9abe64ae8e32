"""The models of the examples. A test checks that the vendors' libraries know them."""

OPENAI = "gpt-6.2-sol"
ANTHROPIC = "claude-sonnet-5-5"
