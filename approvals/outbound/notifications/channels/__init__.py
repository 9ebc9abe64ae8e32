"""The channels of notifications: one module for each kind, behind one port."""
