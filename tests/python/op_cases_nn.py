"""The cases of op_cases.py for mica.nn.functional; activations are among the elementwise ones."""

from op_calls import Draw, between, bools, case, fixed, integers, normal

LINE, IMAGE, VOLUME = normal(2, 4, 9), normal(2, 4, 6, 5), normal(2, 4, 4, 5, 3)
ROWS, TARGETS = normal(6, 4), fixed(between(0.05, 0.95, 6, 4))
UNIT = between(0.05, 0.95, 6, 4)
CLASSES = integers(0, 4, 6)
SIGNS, ROW_SIGNS = Draw("signs", (6, 4)), Draw("signs", (6,))

# Convolutions and pooling.
for _n, _x in enumerate((LINE, IMAGE, VOLUME), 1):
    _kernel = (3,) * _n
    _conv, _transposed = f"conv{_n}d", f"conv_transpose{_n}d"
    case(_conv, _x, normal(6, 4, *_kernel))
    case(_conv, _x, normal(6, 2, *_kernel), normal(6), stride=2, padding=1, groups=2)
    case(_conv, _x, normal(6, 4, *_kernel), normal(6), 1, 2, 2)
    case(_conv, _x, normal(6, 4, *_kernel), padding="same")
    case(_conv, _x, normal(6, 4, *_kernel), padding="valid")
    case(_transposed, _x, normal(4, 6, *_kernel))
    case(
        *(_transposed, _x, normal(4, 3, *_kernel), normal(6)),
        **{"stride": 2, "padding": 1, "output_padding": 1, "groups": 2, "dilation": 1},
    )
    case(_transposed, _x, normal(4, 6, *_kernel), dilation=2)
    case(f"max_pool{_n}d", _x, 2)
    case(f"max_pool{_n}d", _x, 2, stride=1, padding=1, ceil_mode=True)
    case(f"max_pool{_n}d", _x, 2, 1, 0, 2)
    case(f"avg_pool{_n}d", _x, 2)
    case(f"avg_pool{_n}d", _x, 2, 2, 1, True)
    case(f"avg_pool{_n}d", _x, 2, stride=2, padding=1, count_include_pad=False)
    case(f"adaptive_avg_pool{_n}d", _x, 2)
    case(f"adaptive_max_pool{_n}d", _x, 2)
    case(f"max_pool{_n}d", _x, 3, 2, 1, return_indices=True)
    case(f"max_pool{_n}d_with_indices", _x, 2, 1, 1, ceil_mode=True)
    case(f"adaptive_max_pool{_n}d", _x, 3, return_indices=True)
    case(f"adaptive_max_pool{_n}d_with_indices", _x, 2)
    for _mode in ("reflect", "replicate", "circular"):
        case("pad", _x, (1, 2, 1, 0, 1, 1)[: 2 * _n], mode=_mode)
    case("batch_norm", _x, fixed(normal(4)), fixed(between(0.5, 1.5, 4)), normal(4), normal(4))
    case("instance_norm", _x)
    # One image, without the axis of the batch.
    _one = normal(*(4, 6, 5, 4)[: _n + 1])
    case(_conv, _one, normal(6, 4, *_kernel), normal(6), (2,) * _n, padding=1)
    case(_transposed, _one, normal(4, 6, *_kernel), stride=(2,) * _n)
    case(f"max_pool{_n}d", _one, (2,) * _n, return_indices=True)
    case(f"avg_pool{_n}d", _one, 2)
    case(f"adaptive_avg_pool{_n}d", _one, 2)
    case(f"adaptive_max_pool{_n}d", _one, 2)
case("conv2d", IMAGE, normal(6, 4, 3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2))
case("max_pool2d", IMAGE, (3, 2), stride=(2, 1), padding=(1, 0))
case("avg_pool2d", IMAGE, (3, 2), divisor_override=5)
case("adaptive_avg_pool2d", IMAGE, (3, 4))
case("adaptive_max_pool2d", IMAGE, (4, 2))
_positive = {
    1: between(0.2, 2.0, 2, 4, 9),
    2: between(0.2, 2.0, 2, 4, 6, 5),
    3: between(0.2, 2.0, 1, 2, 5, 4, 6),
}
for _n, _x in _positive.items():
    case(f"lp_pool{_n}d", _x, 3.0, 2)
    case(f"lp_pool{_n}d", _x, 2.0, 3, stride=2, ceil_mode=True)

# Images.
case("pad", IMAGE, (1, 2))
case("pad", IMAGE, (1, 0, 2, 1), value=1.5)
case("pad", IMAGE, (-1, 2, 0, -2))
case("F.unfold", IMAGE, 3, padding=1, stride=2)
case("F.unfold", IMAGE, (2, 3), dilation=(2, 1))
case("fold", normal(2, 18, 30), (6, 5), 3, padding=1)
case("pixel_shuffle", IMAGE, 2)
case("pixel_unshuffle", normal(1, 2, 4, 6), 2)
case("channel_shuffle", fixed(IMAGE), 2)
case("interpolate", LINE, scale_factor=2)
case("interpolate", LINE, size=14, mode="linear")
case("interpolate", IMAGE, size=(9, 7))
case("interpolate", IMAGE, scale_factor=(0.5, 1.7))
case("interpolate", VOLUME, size=(3, 7, 2))
for _x in (LINE, IMAGE, VOLUME):
    case("interpolate", _x, scale_factor=1.4, mode="nearest-exact")
    case("interpolate", _x, size=3, mode="area")
    case("interpolate", _x, scale_factor=0.7, recompute_scale_factor=True)
case("F.unfold", normal(4, 6, 5), 3, stride=2)
case("fold", normal(8, 9), (4, 4), 2)
for _corners in (False, True):
    case("interpolate", VOLUME, size=(6, 3, 5), mode="trilinear", align_corners=_corners)
    case("interpolate", VOLUME, None, (1.5, 2.0, 0.7), "trilinear", align_corners=_corners)
    for _mode in ("bilinear", "bicubic"):
        case("interpolate", IMAGE, (3, 7), None, _mode, _corners, antialias=True)
    case("interpolate", IMAGE, size=(9, 7), mode="bilinear", align_corners=_corners)
    case("interpolate", IMAGE, scale_factor=1.5, mode="bicubic", align_corners=_corners)
    case("affine_grid", normal(2, 2, 3), (2, 4, 3, 5), align_corners=_corners)
    for _mode in ("bilinear",) if _corners else ("bilinear", "nearest", "bicubic"):
        for _padding in ("zeros", "border", "reflection"):
            _grid = between(-1.3, 1.3, 2, 3, 4, 2)
            case("grid_sample", IMAGE, _grid, _mode, _padding, align_corners=_corners)

# Normalisation.
_running = (fixed(normal(4)), fixed(between(0.5, 1.5, 4)))
case("batch_norm", IMAGE, *_running, normal(4), normal(4), training=True, momentum=0.3)
case("batch_norm", IMAGE, None, None, training=True, eps=1e-3)
case("batch_norm", ROWS, *_running)
case("instance_norm", IMAGE, *_running, normal(4), normal(4), momentum=0.3)
case("instance_norm", IMAGE, *_running, use_input_stats=False)
case("layer_norm", IMAGE, (6, 5), normal(6, 5), normal(6, 5))
case("layer_norm", ROWS, (4,), eps=1e-3)
case("group_norm", IMAGE, 2, normal(4), normal(4))
case("group_norm", LINE, 4, eps=1e-3)
case("rms_norm", IMAGE, (6, 5), normal(6, 5), eps=1e-5)
case("rms_norm", ROWS, (4,), eps=1e-3)
case("local_response_norm", IMAGE, 3, alpha=0.1, beta=0.6, k=2.0)
case("dropout", ROWS, p=0.3, training=False)
case("F.dropout", ROWS, 0.3, False, inplace=False)
case("normalize", IMAGE)
case("normalize", ROWS, p=1.0, dim=-1)
case("normalize", ROWS, 3.0, 0, eps=9.0)

# Attention.
QUERIES, KEYS, VALUES = normal(2, 3, 5, 4), normal(2, 3, 6, 4), normal(2, 3, 6, 7)
_attention = "scaled_dot_product_attention"
case(_attention, normal(2, 5, 4), normal(2, 5, 4), normal(2, 5, 4))
case(_attention, QUERIES, KEYS, VALUES, scale=0.3)
case(_attention, QUERIES, KEYS, VALUES, is_causal=True)
case(_attention, QUERIES, KEYS, VALUES, bools(5, 6))
case(_attention, QUERIES, KEYS, VALUES, attn_mask=fixed(normal(2, 1, 5, 6)), dropout_p=0.0)

# Embeddings.
case("embedding", integers(0, 7, 2, 3), normal(7, 3))
case("embedding", integers(0, 7, 2, 3), normal(7, 3), padding_idx=1)
case("one_hot", CLASSES)
case("one_hot", CLASSES, num_classes=6)

# Losses.
_weight = fixed(between(0.5, 1.5, 4))
_counts = fixed(between(0.2, 4.0, 6, 4))
for _reduction in ("none", "sum", "mean"):
    _by = {"reduction": _reduction}
    case("cross_entropy", ROWS, CLASSES, **_by)
    case("cross_entropy", ROWS, CLASSES, _weight, ignore_index=2, label_smoothing=0.1, **_by)
    case("cross_entropy", ROWS, TARGETS, label_smoothing=0.1, **_by)
    case("cross_entropy", IMAGE, integers(0, 4, 2, 6, 5), **_by)
    case("nll_loss", ROWS, CLASSES, **_by)
    case("nll_loss", ROWS, CLASSES, _weight, ignore_index=1, **_by)
    case("nll_loss", IMAGE, integers(0, 4, 2, 6, 5), **_by)
    for _name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        case(_name, ROWS, ROWS, **_by)
    case("smooth_l1_loss", ROWS, TARGETS, beta=0.5, **_by)
    case("huber_loss", ROWS, TARGETS, delta=0.7, **_by)
    case("binary_cross_entropy", UNIT, TARGETS, **_by)
    case("binary_cross_entropy", UNIT, TARGETS, _weight, **_by)
    case("binary_cross_entropy_with_logits", ROWS, TARGETS, **_by)
    case("binary_cross_entropy_with_logits", ROWS, TARGETS, _weight, pos_weight=_weight, **_by)
    case("kl_div", ROWS, TARGETS, **_by)
    case("kl_div", ROWS, fixed(ROWS), log_target=True, **_by)
    case("poisson_nll_loss", ROWS, _counts, **_by)
    case("poisson_nll_loss", ROWS, _counts, full=True, **_by)
    case("poisson_nll_loss", UNIT, _counts, log_input=False, eps=0.1, **_by)
    case("gaussian_nll_loss", ROWS, ROWS, UNIT, **_by)
    case("gaussian_nll_loss", ROWS, ROWS, UNIT, full=True, eps=0.5, **_by)
    case("gaussian_nll_loss", ROWS, ROWS, between(0.3, 2.0, 6), **_by)
    case("gaussian_nll_loss", ROWS, ROWS, between(0.3, 2.0, 6, 1), **_by)
    case("multi_margin_loss", ROWS, CLASSES, **_by)
    case("multi_margin_loss", ROWS, CLASSES, p=2, margin=0.7, weight=_weight, **_by)
    case("multilabel_soft_margin_loss", ROWS, TARGETS, **_by)
    case("multilabel_soft_margin_loss", ROWS, TARGETS, _weight, **_by)
    case("soft_margin_loss", ROWS, SIGNS, **_by)
    case("hinge_embedding_loss", ROWS, SIGNS, margin=0.8, **_by)
    case("cosine_embedding_loss", ROWS, ROWS, ROW_SIGNS, margin=0.1, **_by)
    case("margin_ranking_loss", ROWS, ROWS, SIGNS, margin=0.2, **_by)
    case("triplet_margin_loss", ROWS, ROWS, ROWS, **_by)
    case("triplet_margin_loss", ROWS, ROWS, ROWS, margin=0.5, p=1.0, swap=True, **_by)
case("kl_div", ROWS, TARGETS, reduction="batchmean")
case("cross_entropy", normal(4), integers(0, 4))
case("multi_margin_loss", normal(4), integers(0, 4))
case("pairwise_distance", ROWS, ROWS)
case("pairwise_distance", ROWS, normal(4), p=1.0, keepdim=True)
case("pairwise_distance", IMAGE, IMAGE, 3.0, 0.1)
case("cosine_similarity", ROWS, ROWS)
case("cosine_similarity", IMAGE, IMAGE, dim=2)
case("masked_fill", ROWS, bools(6, 1), 0.0)
