"""An app of the test run only: a `flush` that empties the tables between two tests in
milliseconds.
"""
