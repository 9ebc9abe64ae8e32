"""Telling programs what becomes of actions, as https://www.standardwebhooks.com asks: thin, signed,
at least once.
"""
