import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tensors here are tiny: handing them to a thread pool costs more than the arithmetic."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
