"""The hardware table: what its rows say, in which units, and from where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib.hardware import A100, B200, DTYPES, GPUS, H100, H100_PCIE, H200, LINKS, NODES, V100, Protocol

PUBLISHED = {  # dense bf16 (V100: fp16) TFLOP/s, GB, TB/s, GB/s per direction between GPUs
    "V100 SXM2 32GB": (125, 32, 0.9, 150),
    "A100 SXM 80GB": (312, 80, 2.039, 300),
    "H100 PCIe": (756, 80, 2.0, None),
    "H100 SXM": (989, 80, 3.35, 450),
    "H200 SXM": (989, 141, 4.8, 450),
    "B200 SXM": (2250, 180, 8.0, 900),
    "L40S": (362, 48, 0.864, None),
    "RTX A6000": (155, 48, 0.768, None),
    "GB200": (2500, 186, 8.0, 900),
    "B300 SXM": (2250, 270, 7.7, 900),
    "GB300": (2500, 279, 8.0, 900),
    "MI355X": (2516.6, 288, 8.0, 537.6),
    "TPU v5p": (459, 95, 2.765, 600),
    "TPU v6e": (918, 32, 1.638, 400),
    "TPU7x": (2307, 192, 7.38, 600),
}


@pytest.mark.parametrize("name", GPUS)
def test_every_gpu_has_the_published_figures(name):
    """Peak, memory, memory bandwidth and NVLink bandwidth are those of the data sheets."""
    gpu = GPUS[name]
    peak, memory, bandwidth, link = PUBLISHED[name]
    assert gpu.peak("fp16" if gpu is V100 else "bf16") == pytest.approx(peak * 1e12, rel=0.002)
    assert gpu.memory == memory * 1e9
    assert gpu.memory_bandwidth == pytest.approx(bandwidth * 1e12)
    assert link is None or gpu.link.bandwidth == pytest.approx(link * 1e9)


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
    assert len(GPUS) == 15
    assert len(NODES) == 8
    assert {A100.name, B200.name, H100_PCIE.name, H200.name} < set(GPUS)


def test_fp4_is_at_least_twice_fp8():
    """Blackwell and MI355X double their rate from 8 bits to 4, Blackwell Ultra triples it; the others have no fp4."""
    rates = {gpu.name: gpu.peak("fp4") / gpu.peak("fp8") for gpu in GPUS.values() if gpu.fp4}
    assert set(rates) == {"B200 SXM", "GB200", "B300 SXM", "GB300", "MI355X"}
    assert {name: round(rate, 1) for name, rate in rates.items() if rate > 2.1} == {"B300 SXM": 3.1, "GB300": 3.0}
    assert DTYPES[-1] == "fp4"


def test_a_rack_of_72_is_a_node():
    """GB200 and GB300 NVL72: 72 GPUs on NVLink, a port for each of them."""
    for name, gigabytes in (("GB200 NVL72", 50), ("GB300 NVL72", 100)):
        assert (NODES[name].gpus, NODES[name].nics, NODES[name].bandwidth_per_gpu) == (72, 72, gigabytes * 1e9)


def test_the_protocols_of_nccl():
    """Start and step in microseconds, GB/s with which NCCL 2.30.7 reckons on a H100's NVLink: half, 92 % and all."""
    found = {p.name: (1e6 * p.start, 1e6 * p.latency, p.bandwidth / 1e9) for p in H100.link.protocols}
    want = {"LL": (6.6, 0.6, 141.0), "LL128": (14.0, 1.9, 341.1), "Simple": (8.4, 3.4, 370.8)}
    for name, figures in want.items():
        assert found[name] == pytest.approx(figures, rel=1e-3)
    assert [p.name for p in H100_PCIE.link.protocols] == ["LL", "Simple"]
    assert GPUS["TPU7x"].link.protocols == ()
    for link in LINKS.values():
        assert all(p.bandwidth <= link.bandwidth for p in link.protocols)
        assert not link.protocols or link.protocol("Simple").latency == link.latency


def test_a_protocol_that_a_link_has_not_is_a_sentence():
    with pytest.raises(ValueError, match="protocol = 'LL129': NVLink 4, 450 GB/s has 'LL', 'LL128', 'Simple'"):
        H100.link.protocol("LL129")
    with pytest.raises(ValueError, match="protocol = 'LL': ICI of TPU7x, 600 GB/s has none"):
        GPUS["TPU7x"].link.protocol("LL")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bandwidth": 0}, "protocol LL: bandwidth = 0: must be bytes/s, more than 0"),
        ({"bandwidth": None}, "protocol LL: bandwidth = None: must be bytes/s"),
        ({"bandwidth": float("nan")}, "protocol LL: bandwidth = nan"),
        ({"latency": -1e-6}, "protocol LL: latency = -1e-06: must be seconds, 0 or more"),
        ({"start": float("nan")}, "protocol LL: start = nan"),
    ],
)
def test_an_impossible_protocol_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        replace(Protocol("LL", 1e-6, 1e9), **change)
