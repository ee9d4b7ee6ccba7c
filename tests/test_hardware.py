"""The hardware table: what its rows say, in which units, and from where."""

from __future__ import annotations

import pytest

from course_lib.hardware import A100, B200, GPUS, H100, H100_PCIE, H200, LINKS, NODES, V100

PUBLISHED = {  # dense bf16 (V100: fp16) TFLOP/s, GB, TB/s, GB/s per direction between GPUs
    "V100 SXM2 32GB": (125, 32, 0.9, 150),
    "A100 SXM 80GB": (312, 80, 2.039, 300),
    "H100 PCIe": (756, 80, 2.0, None),
    "H100 SXM": (989, 80, 3.35, 450),
    "H200 SXM": (989, 141, 4.8, 450),
    "B200 SXM": (2250, 180, 8.0, 900),
    "L40S": (362, 48, 0.864, None),
    "RTX A6000": (155, 48, 0.768, None),
}


@pytest.mark.parametrize("name", GPUS)
def test_every_gpu_has_the_published_figures(name):
    """Peak, memory, memory bandwidth and NVLink bandwidth are those of the data sheets."""
    gpu = GPUS[name]
    peak, memory, bandwidth, link = PUBLISHED[name]
    assert gpu.peak("fp16" if gpu is V100 else "bf16") == pytest.approx(peak * 1e12, rel=0.002)
    assert gpu.memory == memory * 1e9
    assert gpu.memory_bandwidth == bandwidth * 1e12
    assert link is None or gpu.link.bandwidth == link * 1e9


def test_every_row_names_its_source():
    """No GPU, link or node stands in the table without saying where its figures are from."""
    for row in (*GPUS.values(), *LINKS.values(), *NODES.values()):
        assert len(row.source) > 20, row.name


def test_no_peak_counts_sparsity():
    """Half the width of a number doubles the peak, no more: a figure with sparsity would stand out by a factor 2."""
    assert H100.peak("bf16") == 989e12
    for gpu in GPUS.values():
        tensor = [gpu.peak(dtype) for dtype in ("tf32", "bf16", "fp8") if dtype in gpu.dtypes]
        for wide, narrow in zip(tensor, tensor[1:], strict=False):
            assert narrow / wide == pytest.approx(2, rel=0.03), gpu.name


def test_a_missing_dtype_is_a_sentence():
    """A V100 has no bf16, and the error says which dtypes it has; an unknown name is answered alike."""
    with pytest.raises(ValueError, match="dtype = 'bf16': V100 SXM2 32GB computes in fp32, fp16"):
        V100.peak("bf16")
    with pytest.raises(ValueError, match="dtype = 'memory'"):
        H100.peak("memory")


def test_nics_are_bytes_not_bits():
    """400 Gb/s is 50 GB/s, and a DGX H100 gives each of its 8 GPUs one such port."""
    node = NODES["DGX H100"]
    assert node.nic.bandwidth == 50e9
    assert node.bandwidth_per_gpu == 50e9
    assert NODES["DGX-1 V100"].bandwidth_per_gpu == pytest.approx(100e9 / 8 * 4 / 8)


def test_links_inside_a_node_beat_those_between_nodes():
    """In every node NVLink has more bandwidth and less latency than the share of the network that a GPU gets."""
    for node in NODES.values():
        assert node.gpu.link.bandwidth > 3 * node.bandwidth_per_gpu
        assert node.gpu.link.latency < node.nic.latency


def test_rows_cannot_be_changed():
    """The tables are constants."""
    with pytest.raises(AttributeError):
        H100.memory = 81e9


def test_names_are_unique():
    """Tables by name lose no row."""
    assert len(GPUS) == 8
    assert len(NODES) == 5
    assert {A100.name, B200.name, H100_PCIE.name, H200.name} < set(GPUS)
