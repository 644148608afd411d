"""A matrix product in five steps, from naive to Hopper's tensor cores, beside cuBLAS.

Each step is a short kernel in examples/python/matmul; the table and the plot show what it reaches.
Without a GPU the kernels are compiled, and that is all.
"""

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import mica

STEPS = Path(__file__).parent / "matmul"
SIZE = 4096
Launch = Callable[..., None]
Operands = tuple[mica.Tensor, ...]


def tensor_map(x: mica.Tensor, rows: int) -> mica.Tensor:
    """What the copy engine must know of a (n, k) matrix of bfloat16 to bring tiles (rows, 64)."""
    n, k = x.shape
    driver, map_ = ctypes.CDLL("libcuda.so.1"), ctypes.create_string_buffer(192)
    at = (ctypes.addressof(map_) + 63) & ~63
    u64, u32 = ctypes.c_uint64, ctypes.c_uint32
    bfloat16, swizzle_128, l2_128 = 9, 3, 2
    code = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(at), bfloat16, 2, ctypes.c_void_p(x.data_ptr()), (u64 * 2)(k, n),
        (u64 * 1)(2 * k), (u32 * 2)(64, rows), (u32 * 2)(1, 1), 0, swizzle_128, l2_128, 0,
    )  # fmt: skip
    assert code == 0, f"cuTensorMapEncodeTiled: error {code}"
    return mica.tensor(list(ctypes.string_at(at, 128)), dtype=mica.uint8, device="cuda")


def launches(
    a: mica.Tensor, b: mica.Tensor, c: mica.Tensor
) -> Iterator[tuple[str, Callable[[], None]]]:
    """The name of each step, and what runs it."""
    m, n, k = a.shape[0], b.shape[0], a.shape[1]
    grids = {
        "1_naive": ((n // 32, m // 8), (32, 8)),
        "2_shared_memory": ((n // 32, m // 32), (32, 32)),
        "3_registers": ((n // 128, m // 128), 256),
        "4_tensor_cores": ((n // 128, m // 128), 256),
    }
    device = mica.cuda.get_device_properties()
    for path in sorted(STEPS.glob("*.cu")):
        if path.stem not in grids and device["compute_capability"] != 90:
            continue
        kernel = mica.cuda.kernel(path.read_text(), "product")
        if path.stem in grids:
            launch, operands = kernel[grids[path.stem]], (a, b)
        else:
            launch = kernel[device["multiprocessors"], 384, 4 * (128 + 256) * 128 + 1024]
            operands = (tensor_map(a, 128), tensor_map(b, 256))

        def run(launch: Launch = launch, operands: Operands = operands) -> None:
            launch(*operands, c, m, n, k)

        yield path.stem, run


def milliseconds(run: Callable[[], object], times: int = 20) -> float:
    run()
    begin, end = mica.cuda.Event(), mica.cuda.Event()
    begin.record(mica.cuda.current_stream())
    for _ in range(times):
        run()
    end.record(mica.cuda.current_stream())
    return begin.elapsed_time(end) / times


def plot(rates: dict[str, float]) -> str:
    """The ladder as an SVG."""
    top, lines = max(rates.values()), []
    for i, (name, rate) in enumerate(rates.items()):
        y, width = 10 + 30 * i, 400 * rate / top
        lines += [
            f'<text x="150" y="{y + 15}" text-anchor="end">{name}</text>',
            f'<rect x="160" y="{y}" width="{width:.1f}" height="20" fill="#4878a8"/>',
            f'<text x="{165 + width:.1f}" y="{y + 15}">{rate:,.1f}</text>',
        ]
    height = 20 + 30 * len(rates)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="660" height="{height}" '
        f'font-family="sans-serif" font-size="13">{"".join(lines)}</svg>\n'
    )


def main() -> None:
    if not mica.cuda.is_available():
        kernels = [mica.cuda.kernel(p.read_text(), "product") for p in sorted(STEPS.glob("*.cu"))]
        print(f"compiled {len(kernels)} kernels; to run them: {mica.cuda.unavailable_reason()}")
        return
    mica.manual_seed(0)
    a, b = (mica.randn(SIZE, SIZE, device="cuda").to(mica.bfloat16) for _ in range(2))
    c, want = mica.zeros_like(a), (a @ b.t()).float()
    rates, flops = {}, 2 * SIZE**3
    for name, run in launches(a, b, c):
        c.zero_()
        run()
        error = (c.float() - want).abs().max().item() / want.abs().max().item()
        assert error < 0.01, f"{name} is wrong by {error}"
        rates[name] = flops / milliseconds(run) / 1e9
    rates["cuBLAS"] = flops / milliseconds(lambda: a @ b.t()) / 1e9
    print(f"{SIZE} x {SIZE} bfloat16, TFLOP/s")
    for name, rate in rates.items():
        print(f"{name:18} {rate:8.1f}   {rate / rates['cuBLAS']:6.1%} of cuBLAS")
    Path("matmul_ladder.svg").write_text(plot(rates))


try:
    main()
except mica.DeviceError as error:
    print(f"no CUDA: {error}")
