import gc

from tests.one_thread import one_thread  # noqa: F401

# The modules that these tests import hold millions of objects; going over them again and again is a tenth of the time.
gc.set_threshold(100_000, 50, 50)
