"""Times on the card, by events: medians of many runs, after a warm-up. Nothing here knows a kernel."""

import statistics
from collections.abc import Callable

import torch


def median_ms(run: Callable[[], object], *, warm_ups: int = 3, repeats: int = 11) -> float:
    """Milliseconds of one `run()`, launches included; for work well above launch cost."""
    for _ in range(warm_ups):
        run()
    return statistics.median(_times_ms(run, repeats))


def graph_ms(step: Callable[[], object], *, repeats: int = 15) -> float:
    """Milliseconds of one replay of `step` as a captured graph: what a decode step costs without launch gaps."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(3):
        graph.replay()
    return statistics.median(_times_ms(graph.replay, repeats))


def _times_ms(run: Callable[[], object], repeats: int) -> list[float]:
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return times
