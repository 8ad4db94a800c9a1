from tests.one_thread import one_thread  # noqa: F401
