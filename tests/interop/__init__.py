"""The matrix of operations and servers; its assertions say what they compared."""

import pytest

pytest.register_assert_rewrite("tests.interop.matrix", "tests.interop.sending")
