"""Notifications of people: who is notified of what, when, and by which channel."""
