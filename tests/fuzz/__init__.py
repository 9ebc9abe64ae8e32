"""Fuzzed mail: changes of real messages, what reads them, and the coverage-guided fuzzer."""
