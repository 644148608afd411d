"""A few hundred random programs, eager against compiled; `scripts/test --fuzz` runs more."""

import time

import fuzz_compile
import mica


def test_random_programs(device):
    wrong = []
    ran = refused = 0
    start = time.process_time()
    for _, text, refusal in fuzz_compile.fuzz(600, 7, device):
        if time.process_time() - start > 20:
            break
        if text is None:
            continue
        ran += 1
        refused += refusal is not None
        if text:
            wrong.append(text)
    assert not wrong, "\n".join(wrong[:3])
    assert ran >= 50 and refused < ran / 4


def test_it_finds_what_is_wrong(monkeypatch):
    class Frozen:
        """Replays its first results for ever."""

        def __init__(self, function):
            self.function, self.results = function, None

        def __call__(self, *arguments):
            if self.results is None:
                self.results = self.function(*arguments)
            return self.results

    monkeypatch.setattr(mica, "compile", Frozen)
    found = [text for _, text, _ in fuzz_compile.fuzz(10, seed=7) if text]
    assert found and "def f(x, y):" in found[0]
