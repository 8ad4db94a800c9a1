import torch

from openrlhf.sync.layout import Chunk, Layout, WireFormat, write_tensor

FP32 = WireFormat(torch.float32)
WEIGHTS = [
    ("a", torch.zeros(10)),
    ("b", torch.zeros(3)),
    ("c", torch.zeros(4, 8)),
    ("n", torch.zeros(2, dtype=torch.int64)),
]


def test_tensors_lie_at_multiples_of_64_bytes():
    # fp32: a 40 bytes -> [0, 64), b 12 -> [64, 128), c 128 -> [128, 256), n keeps int64: 16 -> [256, 320).
    layout = Layout.of(WEIGHTS, FP32)
    assert [(spec.name, spec.offset, spec.dtype) for spec in layout.specs] == [
        ("a", 0, "float32"),
        ("b", 64, "float32"),
        ("c", 128, "float32"),
        ("n", 256, "int64"),
    ]
    assert layout.specs[2].shape == (4, 8)
    assert layout.chunks == [Chunk(0, 4, 0, 320)]
    assert layout.num_bytes == 320


def test_the_engine_dtype_decides_the_size():
    # bf16 halves: a 20 -> [0, 64), b 6 -> [64, 128), c 64 -> [128, 192).
    layout = Layout.of(WEIGHTS, WireFormat(torch.bfloat16))
    assert [spec.offset for spec in layout.specs] == [0, 64, 128, 192]
    assert layout.specs[0].dtype == "bfloat16"


def test_what_a_16_bit_model_holds_in_fp32_travels_so():
    bias = ("gate.e_score_correction_bias", torch.tensor([8.3, 8.31]))  # bf16 makes 8.3125 of both
    weights = [("gate.weight", torch.zeros(2, dtype=torch.bfloat16)), bias]
    assert [spec.dtype for spec in Layout.of(weights, WireFormat(torch.bfloat16, torch.bfloat16)).specs] == [
        "bfloat16",
        "float32",
    ]
    # Of an fp32 model it is a weight like any other.
    assert Layout.of([bias], WireFormat(torch.bfloat16, torch.float32)).specs[0].dtype == "bfloat16"


def test_chunks_hold_whole_tensors():
    # At most 128 bytes a chunk: a and b together, c alone (exactly 128), n begins the next.
    layout = Layout.of(WEIGHTS, FP32, chunk_bytes=128)
    assert layout.chunks == [Chunk(0, 2, 0, 128), Chunk(2, 3, 128, 256), Chunk(3, 4, 256, 320)]


def test_a_tensor_larger_than_a_chunk_gets_its_own():
    layout = Layout.of(WEIGHTS[:3], FP32, chunk_bytes=64)
    assert layout.chunks == [Chunk(0, 1, 0, 64), Chunk(1, 2, 64, 128), Chunk(2, 3, 128, 256)]


def test_meta_tensors_are_enough_for_a_layout():
    meta = [(name, tensor.to("meta")) for name, tensor in WEIGHTS]
    assert Layout.of(meta, FP32).specs == Layout.of(WEIGHTS, FP32).specs


def test_write_tensor_casts_and_leaves_its_neighbours_alone():
    data = torch.full((128,), 7, dtype=torch.uint8)
    write_tensor(data, 64, torch.tensor([[1.5, -2.0]]), torch.bfloat16)
    assert data[64:68].view(torch.bfloat16).tolist() == [1.5, -2.0]
    assert set(data[:64].tolist()) == {7}
    assert set(data[68:].tolist()) == {7}
