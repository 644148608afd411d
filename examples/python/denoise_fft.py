"""Takes a pattern of stripes off a photo by its Fourier transform, and writes both as PNG.

    python denoise_fft.py --photo cat.jpg

A photo's own spectrum falls off smoothly; stripes are a few frequencies that stand out of it.
Without a photo it draws one.
"""

import argparse

import mica


def drawn(side: int = 128) -> mica.Tensor:
    at = mica.linspace(-1, 1, side)
    y, x = at.reshape(-1, 1), at.reshape(1, -1)
    hill = mica.exp(-3 * ((x - 0.2) ** 2 + y**2))
    disc = mica.sigmoid(40 * (0.3 - ((x + 0.4) ** 2 + (y + 0.3) ** 2).sqrt()))
    return mica.stack([hill, disc, (hill + disc) / 2]) * 0.8 + 0.1


def striped(photo: mica.Tensor) -> mica.Tensor:
    _, height, width = photo.shape
    y = mica.arange(height).reshape(-1, 1) / height
    x = mica.arange(width).reshape(1, -1) / width
    waves = mica.sin(2 * mica.pi * (19 * x + 11 * y)) + mica.sin(2 * mica.pi * (30 * y - 7 * x))
    return photo + 0.1 * waves


def denoised(photo: mica.Tensor) -> mica.Tensor:
    """Frequencies that stand out of those around them are brought down to them."""
    spectrum = mica.fft.fft2(photo)
    size = mica.fft.fftshift(spectrum.abs(), (-2, -1))
    around = mica.nn.functional.avg_pool2d(size.unsqueeze(0), 9, stride=1, padding=4).squeeze(0)
    height, width = photo.shape[-2:]
    y = mica.arange(height).reshape(-1, 1) - height // 2
    x = mica.arange(width).reshape(1, -1) - width // 2
    stands_out = (size > 6 * around) & (x * x + y * y > 64)  # the low ones are the photo itself
    kept = mica.where(mica.fft.ifftshift(stands_out, (-2, -1)), 0.0, 1.0)
    return mica.fft.ifft2(spectrum * kept).real.clamp(0, 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--photo")
    options = parser.parse_args()
    photo = mica.io.read_image(options.photo).float() / 255 if options.photo else drawn()
    noisy = striped(photo)
    clean = denoised(noisy)
    for name, picture in (("striped", noisy.clamp(0, 1)), ("denoised", clean)):
        mica.io.write_png(f"{name}.png", (picture * 255).round().to(mica.uint8))
    before = (noisy - photo).square().mean().sqrt().item()
    after = (clean - photo).square().mean().sqrt().item()
    print(f"root mean square error {before:.4f} with stripes, {after:.4f} without")
    assert after < before / 4


if __name__ == "__main__":
    main()
