#include <gtest/gtest.h>

#include "mica/mica.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using Floats = std::vector<float>;

TEST(Tensor, Creation) {
  const Tensor t = tensor({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3});
  EXPECT_EQ(t.shape(), (Shape{2, 3}));
  EXPECT_EQ(t.dtype(), DType::f32);
  EXPECT_EQ(t.size(-1), 3);
  EXPECT_EQ(t.numel(), 6);
  EXPECT_EQ(t.to_vector<float>(), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(zeros({2}).to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(ones({2}).to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(full({2}, 7, {.dtype = DType::i32}).to_vector<int32_t>(), (std::vector<int32_t>{7, 7}));
  EXPECT_EQ(arange(4).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(scalar(2.5, {.dtype = DType::bf16}).item(), 2.5);
  EXPECT_EQ(zeros_like(t).shape(), t.shape());
  EXPECT_EQ(tensor({true, false}, {2}).dtype(), DType::boolean);
  expect_error<ShapeError>("tensor: shape [2, 2] needs 4 values, got 3",
                           [] { tensor({1.0F, 2.0F, 3.0F}, {2, 2}); });
}

TEST(Tensor, UndefinedOnesSayso) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_FALSE(none.requires_grad());
  EXPECT_TRUE(none.is_leaf());
  EXPECT_EQ(to_string(none), "undefined tensor");
  expect_error<Error>("an undefined tensor was used", [&] { (void)none.shape(); });
}

TEST(Tensor, ReadsItsValuesInItsDtypeOnly) {
  const Tensor t = zeros({2});
  expect_error<DTypeError>("data_as: the tensor is f32, not f64", [&] { t.data_as<double>(); });
  expect_error<DTypeError>("to_vector: the tensor is f32, not i64",
                           [&] { t.to_vector<int64_t>(); });
  expect_error<ShapeError>("item: expected one element, got shape [2]", [&] { (void)t.item(); });
  EXPECT_EQ(tensor({int64_t{5}}, {1, 1}).item(), 5);
}

TEST(Tensor, Printing) {
  EXPECT_EQ(to_string(tensor({1.0F, 2.5F, -3.0F, 1e-3F}, {2, 2})),
            "tensor([[ 1.0000e+00,  2.5000e+00],\n        [-3.0000e+00,  1.0000e-03]])");
  EXPECT_EQ(to_string(tensor({0.5F, -2.0F, INFINITY}, {3})), "tensor([ 0.5000, -2.0000,     inf])");
  EXPECT_EQ(to_string(tensor({int64_t{1}, int64_t{2}}, {2})), "tensor([1, 2], i64[2])");
  EXPECT_EQ(to_string(tensor({true, false}, {2})), "tensor([ true, false], bool[2])");
  EXPECT_EQ(to_string(scalar(3)), "tensor(3.)");
  EXPECT_EQ(to_string(zeros({0, 2})), "tensor([], f32[0, 2])");
  EXPECT_EQ(to_string(arange(2000)),
            "tensor([   0,    1,    2, ..., 1997, 1998, 1999], i64[2000])");
  EXPECT_EQ(to_string(zeros({2, 0})), "tensor([[],\n        []], f32[2, 0])");
  const std::string line = "0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.";
  EXPECT_EQ(to_string(zeros({19})), "tensor([" + line + ",\n        0.])");
  EXPECT_EQ(to_string(transpose(tensor({1.0F, 2.0F, 3.0F, 4.0F}, {2, 2}), 0, 1)),
            "tensor([[1., 3.],\n        [2., 4.]])");
  EXPECT_EQ(to_string(zeros({2}, {.device = Device::null()})), "tensor(<f32[2] on null>)");
}

TEST(Tensor, CopiesShareAndViewsShareMemory) {
  const Tensor a = zeros({2, 3});
  Tensor handle = zeros({1});
  handle = a;
  fill_(handle, 1);
  EXPECT_EQ(a.to_vector<float>(), Floats(6, 1));
  const Tensor view = transpose(a, 0, 1);
  EXPECT_EQ(view.storage(), a.storage());
  fill_(slice(view, 0, 0, 1), 5);
  EXPECT_EQ(a.to_vector<float>(), (Floats{5, 1, 1, 5, 1, 1}));
  const Tensor own = clone(a);
  fill_(a, 0);
  EXPECT_EQ(own.to_vector<float>(), (Floats{5, 1, 1, 5, 1, 1}));
}

TEST(Tensor, ReshapeIsAViewWhereStridesAllowIt) {
  const Tensor a = cast(arange(24), DType::f32);
  const Tensor cube = reshape(a, {2, 3, 4});
  EXPECT_EQ(cube.storage(), a.storage());
  EXPECT_EQ(reshape(cube, {6, 4}).storage(), a.storage());
  const Tensor turned = transpose(cube, 0, 1);  // (3, 2, 4)
  EXPECT_EQ(reshape(turned, {3, 2, 2, 2}).storage(), a.storage());
  const Tensor flat = reshape(turned, {24});
  EXPECT_NE(flat.storage(), a.storage());
  EXPECT_EQ(flat.to_vector<float>()[4], 12);
  EXPECT_EQ(flatten(cube, 1).shape(), (Shape{2, 12}));
  EXPECT_EQ(flatten(scalar(1)).shape(), (Shape{1}));
}

TEST(Tensor, ChannelsLastIsAStrideOrder) {
  const Tensor x = reshape(cast(arange(2 * 3 * 4 * 5), DType::f32), {2, 3, 4, 5});
  const Tensor last = contiguous(x, MemoryFormat::channels_last);
  EXPECT_EQ(last.shape(), x.shape());
  EXPECT_TRUE(last.spec().is_channels_last());
  EXPECT_EQ(last.to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(last.data_as<float>()[1], 20);  // the second channel of the first pixel
  // What is computed from it keeps the format.
  EXPECT_TRUE(relu(last).spec().is_channels_last());
  EXPECT_TRUE(add(last, x).spec().is_channels_last());
  EXPECT_TRUE(conv2d(last, ones({4, 3, 2, 2})).spec().is_channels_last());
  EXPECT_TRUE(max_pool2d(last).spec().is_channels_last());
  EXPECT_TRUE(cast(last, DType::f16).spec().is_channels_last());
  EXPECT_TRUE(clone(last).spec().is_channels_last());
  EXPECT_FALSE(relu(x).spec().is_channels_last());
  EXPECT_TRUE(contiguous(last).spec().is_contiguous());
  EXPECT_EQ(contiguous(last, MemoryFormat::channels_last).impl(), last.impl());
}

TEST(Tensor, MixedDtypesPromote) {
  const Tensor i = arange(3);
  const Tensor h = ones({3}, {.dtype = DType::f16});
  EXPECT_EQ(add(i, h).dtype(), DType::f16);
  EXPECT_EQ(add(h, ones({3}, {.dtype = DType::bf16})).dtype(), DType::f32);
  EXPECT_EQ(div(i, i).dtype(), DType::f32);
  // Numbers are weak.
  EXPECT_EQ(mul(h, 0.5).dtype(), DType::f16);
  EXPECT_EQ(add(i, 1).dtype(), DType::i64);
  EXPECT_EQ(mul(i, 0.5).dtype(), DType::f32);
  EXPECT_EQ((arange(3) + 1).to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3}));
  const Tensor mask = tensor({true, false}, {2});
  EXPECT_EQ(add(mask, 1).to_vector<int64_t>(), (std::vector<int64_t>{2, 1}));
  EXPECT_FALSE(any(eq(mask, 2)).item());
}

TEST(Tensor, WritesReachEveryView) {
  const Tensor a = zeros({4});
  const uint32_t before = a.storage()->version();
  copy_(a, tensor({1.0F, 2.0F, 3.0F, 4.0F}, {4}));
  add_(slice(a, 0, 2, 4), ones({2}));
  EXPECT_EQ(a.to_vector<float>(), (Floats{1, 2, 4, 5}));
  EXPECT_EQ(a.storage()->version(), before + 2);
}

TEST(Tensor, InputsOfOneCallLieOnOneDevice) {
  expect_error<DeviceError>("add: inputs are on different devices, cpu and null",
                            [] { add(zeros({2}), zeros({2}, {.device = Device::null()})); });
}

TEST(Tensor, TheNullDeviceCarriesShapes) {
  const Tensor x = zeros({8, 3, 32, 32}, {.device = Device::null()});
  const Tensor y = conv2d(x, zeros({4, 3, 3, 3}, {.device = Device::null()}), {}, {.padding = 1});
  EXPECT_EQ(y.shape(), (Shape{8, 4, 32, 32}));
  EXPECT_EQ(slice(x, 0, 2, 5).shape(), (Shape{3, 3, 32, 32}));
  expect_error<Unsupported>("item: a tensor on null has no values",
                            [] { (void)scalar(1, {.device = Device::null()}).item(); });
}

TEST(Tensor, EmptyOnesGoThroughEverything) {
  const Tensor e = zeros({0, 3});
  EXPECT_EQ(add(e, e).shape(), (Shape{0, 3}));
  EXPECT_EQ(sum(e).item(), 0);
  EXPECT_EQ(e.to_vector<float>().size(), 0U);
  EXPECT_EQ(clone(transpose(e, 0, 1)).shape(), (Shape{3, 0}));
}

}  // namespace
}  // namespace mica
