"""An app of the tests and of `make`: a `flush` that empties the tables between two tests in milliseconds,
and the commands that write documents and collect texts.
"""
