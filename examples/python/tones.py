"""Learns to tell four kinds of tones by their spectrograms: steady, rising, falling, trembling."""

import mica
from mica import nn
from mica.nn import functional

RATE, LENGTH, KINDS = 4000, 2048, 4


def tones(n: int) -> tuple[mica.Tensor, mica.Tensor]:
    """Signals (n, LENGTH) at random pitches, with noise, and their kinds."""
    t = mica.arange(LENGTH).reshape(1, -1) / RATE
    kind = mica.randint(0, KINDS, (n,))
    k = kind.reshape(-1, 1)
    pitch = 400 + 800 * mica.rand(n, 1)
    slope = mica.where(k == 1, 700.0, 0.0) + mica.where(k == 2, -700.0, 0.0)
    tremble = mica.where(k == 3, 12.0, 0.0) * mica.sin(2 * mica.pi * 8 * t)
    phase = 2 * mica.pi * (pitch * t + slope * t * t / 2) + tremble
    start = 2 * mica.pi * mica.rand(n, 1)
    return mica.sin(phase + start) + 0.5 * mica.randn(n, LENGTH), kind


def spectrogram(signal: mica.Tensor) -> mica.Tensor:
    """Loudness (n, 1, frequencies, frames), in units that ears use."""
    n = mica.arange(128)
    window = 0.5 - 0.5 * mica.cos(2 * mica.pi * n / 128)
    frames = mica.stft(signal, 128, hop_length=64, window=window)
    return mica.log1p(frames.abs().square()).unsqueeze(1) / 4


def main() -> None:
    mica.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 17 * 9, KINDS),
    )
    optimizer = mica.optim.Adam(net.parameters(), lr=3e-3)

    @mica.compile
    def step(signal: mica.Tensor, kind: mica.Tensor) -> mica.Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(spectrogram(signal)), kind)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(120):
        loss = step(*tones(64))
    signal, kind = tones(256)
    with mica.no_grad():
        right = (net(spectrogram(signal)).argmax(1) == kind).float().mean().item()
    print(f"loss {loss.item():.3f}, {right:.1%} of 256 new tones right")
    assert right > 0.9


if __name__ == "__main__":
    main()
