"""An app of the test run alone: a `flush` that empties the tables between two tests in
milliseconds.
"""
