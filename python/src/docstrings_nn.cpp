// What Python's help says of the functions of mica.nn.functional.
#include <algorithm>

#include "python/src/docstrings.h"

namespace mica::python {
namespace {

constexpr Docstring kDocstrings[] = {
    {"adaptive_avg_pool1d",
     "The mean of each of output_size windows that divide input (N, C, L) into nearly equal parts, "
     "which overlap by one where they are not equal: (N, C, output_size)."},
    {"adaptive_avg_pool2d",
     "The mean of each of output_size = (H', W') windows that divide input (N, C, H, W) into "
     "nearly equal parts, which overlap by one where they are not equal: (N, C, H', W')."},
    {"adaptive_avg_pool3d",
     "The mean of each of output_size = (D', H', W') windows that divide input (N, C, D, H, W) "
     "into nearly equal parts, which overlap by one where they are not equal: (N, C, D', H', W')."},
    {"adaptive_max_pool1d",
     "The largest value of each of output_size windows that divide input (N, C, L) into nearly "
     "equal parts, which overlap by one where they are not equal: (N, C, output_size). NaN wins."},
    {"adaptive_max_pool2d",
     "The largest value of each of output_size = (H', W') windows that divide input (N, C, H, W) "
     "into nearly equal parts, which overlap by one where they are not equal: (N, C, H', W'). NaN "
     "wins."},
    {"adaptive_max_pool3d",
     "The largest value of each of output_size = (D', H', W') windows that divide input (N, C, D, "
     "H, W) into nearly equal parts, which overlap by one where they are not equal: (N, C, D', H', "
     "W'). NaN wins."},
    {"affine_grid",
     "The grid (N, H, W, 2) for grid_sample that the matrices theta (N, 2, 3) make of the pixels "
     "of images of this size, (N, C, H, W). align_corners as there."},
    {"avg_pool1d",
     "The mean of each window of input (N, C, L): (N, C, L'), L' = floor((L + 2 padding - "
     "kernel_size) / stride) + 1; stride is kernel_size unless given. Padding counts in the "
     "divisor with count_include_pad; divisor_override takes its place; with ceil_mode a last "
     "window that reaches past the end counts too."},
    {"avg_pool2d",
     "The mean of each window of input (N, C, H, W): (N, C, H', W'), H' = floor((H + 2 padding - "
     "kernel_size) / stride) + 1; stride is kernel_size unless given. Padding counts in the "
     "divisor with count_include_pad; divisor_override takes its place; with ceil_mode a last "
     "window that reaches past the end counts too."},
    {"avg_pool3d",
     "The mean of each window of input (N, C, D, H, W): (N, C, D', H', W'), H' = floor((H + 2 "
     "padding - kernel_size) / stride) + 1; stride is kernel_size unless given. Padding counts in "
     "the divisor with count_include_pad; divisor_override takes its place; with ceil_mode a last "
     "window that reaches past the end counts too."},
    {"batch_norm",
     "input (N, C, …) normalised over every axis but the second, times weight (C), plus bias (C). "
     "training: by the batch's statistics, and running_mean and running_var (C) move towards them "
     "by momentum; else by the running ones. All but input are float32 for float16 and bfloat16, "
     "else of input's dtype."},
    {"binary_cross_entropy",
     "-(target log(input) + (1 - target) log(1 - input)) of probabilities; logarithms are at least "
     "-100. target has input's shape, weight broadcasts; reduction 'mean' and 'sum' give 0-d, "
     "'none' input's shape."},
    {"binary_cross_entropy_with_logits",
     "binary_cross_entropy of sigmoid(input), without overflow for inputs of any size. target has "
     "input's shape; weight, and pos_weight for targets of 1, broadcast; reduction 'mean' and "
     "'sum' give 0-d, 'none' input's shape."},
    {"celu",
     "input where it is positive, else alpha * (exp(input / alpha) - 1); of a floating dtype."},
    {"channel_shuffle",
     "input (N, C, …) with its channels, seen as (groups, C / groups), transposed."},
    {"clipped_relu", "input in [0, limit], in its dtype; NaN stays."},
    {"conv1d",
     "Cross-correlation of input (N, C, L) with weight (O, C / groups, k), plus bias (O): (N, O, "
     "L'), L' = floor((L + 2 padding - dilation (k - 1) - 1) / stride) + 1. padding: a number, "
     "((before, after),), 'same' (for a stride of 1) or 'valid'."},
    {"conv2d",
     "Cross-correlation of input (N, C, H, W) with weight (O, C / groups, kH, kW), plus bias (O): "
     "(N, O, H', W'), H' = floor((H + 2 padding - dilation (kH - 1) - 1) / stride) + 1. padding: "
     "one or two numbers, a pair (before, after) for each axis, 'same' (for a stride of 1) or "
     "'valid'."},
    {"conv3d",
     "Cross-correlation of input (N, C, D, H, W) with weight (O, C / groups, kD, kH, kW), plus "
     "bias (O): (N, O, D', H', W'), H' = floor((H + 2 padding - dilation (kH - 1) - 1) / stride) + "
     "1. padding: one or three numbers, a pair (before, after) for each axis, 'same' (for a stride "
     "of 1) or 'valid'."},
    {"conv_transpose1d",
     "What the gradient of conv1d does: input (N, C, L) with weight (C, O / groups, k), plus bias "
     "(O), gives (N, O, L'), L' = (L - 1) stride - 2 padding + dilation (k - 1) + 1 + "
     "output_padding."},
    {"conv_transpose2d",
     "What the gradient of conv2d does: input (N, C, H, W) with weight (C, O / groups, kH, kW), "
     "plus bias (O), gives (N, O, H', W'), H' = (H - 1) stride - 2 padding + dilation (kH - 1) + 1 "
     "+ output_padding."},
    {"conv_transpose3d",
     "What the gradient of conv3d does: input (N, C, D, H, W) with weight (C, O / groups, kD, kH, "
     "kW), plus bias (O), gives (N, O, D', H', W'), H' = (H - 1) stride - 2 padding + dilation (kH "
     "- 1) + 1 + output_padding."},
    {"cosine_embedding_loss",
     "1 - cos(input1, input2) where target is 1, max(0, cos(input1, input2) - margin) where it is "
     "-1. The inputs are (N, D) or (D), target is (N) or 0-d; reduction 'mean' and 'sum' give 0-d, "
     "'none' target's shape."},
    {"cosine_similarity",
     "The cosine of the angle between the vectors of x1 and x2 along dim, which is dropped; shapes "
     "broadcast. A vector counts with a length of at least eps."},
    {"cross_entropy",
     "-log softmax(input)[target] of logits (N, C, …) or (C). target: classes (N, …) or 0-d of "
     "integers, of which ignore_index counts for nothing, or probabilities of input's shape; "
     "weight (C) is of each class and weights the mean. reduction 'mean' and 'sum' give 0-d, "
     "'none' (N, …); float16 and bfloat16 give float32."},
    {"dropout",
     "input with each element zero with probability p, in [0, 1), and the others times 1 / (1 - "
     "p); input itself unless training."},
    {"dropout1d",
     "input (N, C, L) with each channel zero with probability p, in [0, 1), and the others times 1 "
     "/ (1 - p); input itself unless training."},
    {"dropout2d",
     "input (N, C, H, W) with each channel zero with probability p, in [0, 1), and the others "
     "times 1 / (1 - p); input itself unless training."},
    {"dropout3d",
     "input (N, C, D, H, W) with each channel zero with probability p, in [0, 1), and the others "
     "times 1 / (1 - p); input itself unless training."},
    {"elu", "input where it is positive, else alpha * (exp(input) - 1); of a floating dtype."},
    {"embedding",
     "The rows of weight (rows, D) at the indices in input, of integers: (*input.shape, D). Row "
     "padding_idx takes no gradient; an index outside raises IndexError."},
    {"fold",
     "The adjoint of unfold: input (N, C * kH * kW, L) added up to images (N, C, H, W) of "
     "output_size = (H, W)."},
    {"gaussian_nll_loss",
     "(log(var) + (input - target)^2 / var) / 2 with var at least eps, plus log(2 pi) / 2 with "
     "full. target has input's shape, var too, or with 1 for its last axis, or without that; "
     "reduction 'mean' and 'sum' give 0-d, 'none' input's shape."},
    {"gelu",
     "input * P(X <= input) for a normal X, by erf; approximate='tanh' takes the usual "
     "approximation. Of a floating dtype."},
    {"glu", "a * sigmoid(b) of the halves a and b of input (…, 2 n, …) along dim: (…, n, …)."},
    {"grid_sample",
     "input (N, C, H, W) at the points (x, y) of grid (N, H', W', 2): (N, C, H', W'). The image "
     "reaches from -1 to 1: its edges, or the middles of the corner pixels with align_corners. "
     "mode: 'bilinear', 'nearest' or 'bicubic'; padding_mode, of what lies outside: 'zeros', "
     "'border' or 'reflection'. A point that is NaN gives 0."},
    {"group_norm",
     "Each image of input (N, C, …) normalised over num_groups groups of neighbouring channels, "
     "times weight (C), plus bias (C). Statistics are float64 for float64, else float32."},
    {"gumbel_softmax",
     "softmax((logits + g) / tau) along dim, logits' shape, where g is drawn from Gumbel's "
     "distribution; with hard, 1 for the largest and 0 for the others, with the gradient of the "
     "soft values."},
    {"hardshrink", "0 where |input| <= lambd, else input, in its dtype; NaN stays."},
    {"hardsigmoid", "clamp(input + 3, 0, 6) / 6; of a floating dtype."},
    {"hardswish", "input * clamp(input + 3, 0, 6) / 6; of a floating dtype."},
    {"hardtanh", "input in [min_val, max_val], in its dtype; NaN stays."},
    {"hinge_embedding_loss",
     "input where target is 1, max(0, margin - input) where it is -1. target has input's shape; "
     "reduction 'mean' and 'sum' give 0-d, 'none' input's shape."},
    {"huber_loss",
     "With d = |input - target|: d^2 / 2 where d <= delta, else delta (d - delta / 2). target has "
     "input's shape; reduction 'mean' and 'sum' give 0-d, 'none' input's shape."},
    {"instance_norm",
     "Each channel of each image of input (N, C, …) normalised, times weight (C), plus bias (C). "
     "use_input_stats: by its own statistics, and running_mean and running_var (C), where given, "
     "move towards their mean over the images by momentum; else by the running ones."},
    {"interpolate",
     "input (N, C, L) or (N, C, H, W) at another resolution: size, or floor(size * scale_factor). "
     "mode: 'nearest', 'linear' (of L), 'bilinear' or 'bicubic' (of H, W). align_corners keeps the "
     "middles of the corner pixels in place instead of the edges."},
    {"kl_div",
     "target (log(target) - input), where input holds log-probabilities, and target too with "
     "log_target. target has input's shape; reduction 'mean', 'sum' and 'batchmean' (the sum "
     "divided by N) give 0-d, 'none' input's shape."},
    {"l1_loss",
     "|input - target|. target has input's shape; reduction 'mean' and 'sum' give 0-d, 'none' "
     "input's shape."},
    {"layer_norm",
     "input normalised over its last axes, whose sizes are normalized_shape: (input - mean) / "
     "sqrt(variance + eps), times weight, plus bias, both of that shape. Statistics are float64 "
     "for float64, else float32."},
    {"leaky_relu", "input where it is positive, else negative_slope * input; of a floating dtype."},
    {"linear",
     "input (…, in) times the transpose of weight (out, in), plus bias (out): (…, out). activation "
     "'relu' or 'gelu' is applied in the same pass."},
    {"local_response_norm",
     "input / (k + alpha * mean of squares over `size` channels around)^beta, of input (N, C, …). "
     "Channels outside count as zeros; of an even size, one more lies before than behind."},
    {"logsigmoid", "log(sigmoid(input)), without overflow; of a floating dtype."},
    {"lp_pool1d",
     "(k * mean of input^norm_type)^(1 / norm_type) of each window, k elements of input (N, C, L): "
     "(N, C, L'); stride is kernel_size unless given. The gradient where it is 0 is 0."},
    {"lp_pool2d",
     "(k * mean of input^norm_type)^(1 / norm_type) of each window, k elements of input (N, C, H, "
     "W): (N, C, H', W'); stride is kernel_size unless given. The gradient where it is 0 is 0."},
    {"margin_ranking_loss",
     "max(0, margin - target (input1 - input2)), with targets of 1 and -1; all of one shape. "
     "reduction 'mean' and 'sum' give 0-d, 'none' that shape."},
    {"max_pool1d",
     "The largest value of each window of input (N, C, L): (N, C, L'), L' = floor((L + 2 padding - "
     "dilation (kernel_size - 1) - 1) / stride) + 1; stride is kernel_size unless given, with "
     "ceil_mode a last window that reaches past the end counts too. NaN wins; the first of equals "
     "has the gradient."},
    {"max_pool2d",
     "The largest value of each window of input (N, C, H, W): (N, C, H', W'), H' = floor((H + 2 "
     "padding - dilation (kernel_size - 1) - 1) / stride) + 1; stride is kernel_size unless given, "
     "with ceil_mode a last window that reaches past the end counts too. NaN wins; the first of "
     "equals has the gradient."},
    {"max_pool3d",
     "The largest value of each window of input (N, C, D, H, W): (N, C, D', H', W'), H' = floor((H "
     "+ 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1; stride is kernel_size unless "
     "given, with ceil_mode a last window that reaches past the end counts too. NaN wins; the "
     "first of equals has the gradient."},
    {"mish", "input * tanh(softplus(input)); of a floating dtype."},
    {"mse_loss",
     "(input - target)^2. target has input's shape; reduction 'mean' and 'sum' give 0-d, 'none' "
     "input's shape."},
    {"multi_margin_loss",
     "The sum over the classes i other than target of max(0, margin - input[target] + input[i])^p "
     "/ C, times weight[target]. input is (N, C) or (C), target (N) or 0-d of integers, weight "
     "(C), p 1 or 2; reduction 'mean' and 'sum' give 0-d, 'none' target's shape."},
    {"multilabel_soft_margin_loss",
     "The mean over the last axis of binary_cross_entropy_with_logits(input, target) of (…, C), "
     "with weight (C) of each class; reduction 'mean' and 'sum' give 0-d, 'none' (…)."},
    {"nll_loss",
     "-input[target] of log-probabilities (N, C, …) or (C) and classes (N, …) or 0-d of integers, "
     "of which ignore_index counts for nothing; weight (C) is of each class and weights the mean. "
     "reduction 'mean' and 'sum' give 0-d, 'none' target's shape."},
    {"normalize",
     "input divided by its p-norm along dim, or by eps where that is less; input's shape."},
    {"one_hot",
     "int64 (*tensor.shape, num_classes): 1 at the class that each element of tensor names, else "
     "0. num_classes=-1 takes the largest class + 1."},
    {"pad",
     "input with elements added around it: pad holds pairs (before, after) of the last axis, the "
     "one before it, and so on. mode: 'constant' (value, or 0; negative numbers cut), 'reflect' "
     "(without the edge), 'replicate' or 'circular'."},
    {"pairwise_distance",
     "The p-norm of x1 - x2 + eps along the last axis of (…, D), which is dropped, or stays with a "
     "size of 1 with keepdim; shapes broadcast."},
    {"pixel_shuffle",
     "(…, C * r^2, H, W) becomes (…, C, H * r, W * r) with r = upscale_factor: each group of r^2 "
     "channels is a tile of r by r pixels."},
    {"pixel_unshuffle",
     "The way back of pixel_shuffle: (…, C, H * r, W * r) becomes (…, C * r^2, H, W) with r = "
     "downscale_factor."},
    {"poisson_nll_loss",
     "exp(input) - target * input, or input - target * log(input + eps) without log_input; full "
     "adds Stirling's approximation of log(target!) where target is above 1. target has input's "
     "shape; reduction 'mean' and 'sum' give 0-d, 'none' input's shape."},
    {"prelu",
     "input where it is positive, else weight * input: one weight, or (C) for the channels of "
     "input (N, C, …)."},
    {"relu6", "input in [0, 6], in its dtype; NaN stays."},
    {"rms_norm",
     "input / sqrt(mean of its squares + eps) over its last axes, whose sizes are "
     "normalized_shape, times weight of that shape."},
    {"scaled_dot_product_attention",
     "softmax(query key^T scale) value of query (…, L, E), key (…, S, E) and value (…, S, V): (…, "
     "L, V). scale is 1 / sqrt(E) unless given. attn_mask broadcasts to (…, L, S): bool, True "
     "where a query looks at a key, or numbers of query's dtype that are added; is_causal lets "
     "query i look at keys 0 to i. A query that looks at nothing gives zeros. dropout_p is of the "
     "weights, in evaluation too."},
    {"selu",
     "s * input where it is positive, else s * a * (exp(input) - 1), with s = 1.0507… and a = "
     "1.6732…: activations keep mean 0 and variance 1. Of a floating dtype."},
    {"silu", "input * sigmoid(input); of a floating dtype."},
    {"smooth_l1_loss",
     "With d = |input - target|: d^2 / (2 beta) where d < beta, else d - beta / 2. target has "
     "input's shape; reduction 'mean' and 'sum' give 0-d, 'none' input's shape."},
    {"soft_margin_loss",
     "log(1 + exp(-target input)), with targets of 1 and -1 in input's shape; reduction 'mean' and "
     "'sum' give 0-d, 'none' input's shape."},
    {"softmin", "softmax(-input) along dim, input's shape."},
    {"softplus",
     "log(1 + exp(beta * input)) / beta, and input itself where beta * input is above threshold; "
     "of a floating dtype."},
    {"softshrink",
     "input - lambd above lambd, input + lambd below -lambd, else 0, in input's dtype."},
    {"softsign", "input / (1 + |input|) of each element; integers give float32."},
    {"tanhshrink", "input - tanh(input) of each element; integers give float32."},
    {"threshold", "input where it is above threshold, else value, in input's dtype; NaN stays."},
    {"triplet_margin_loss",
     "max(0, |anchor - positive| - |anchor - negative| + margin), p-norms along the last axis of "
     "(…, D), with eps added to each difference; swap takes the lesser of the negative's distances "
     "to anchor and positive. reduction 'mean' and 'sum' give 0-d, 'none' (…)."},
    {"unfold",
     "The windows of input (N, C, H, W), zero-padded, as columns (N, C * kH * kW, L), where L "
     "counts the windows row by row."},
};

static_assert(std::ranges::is_sorted(kDocstrings, {}, &Docstring::name));

}  // namespace

std::span<const Docstring> functional_docstrings() { return kDocstrings; }

}  // namespace mica::python
