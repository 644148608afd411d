#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mica/core/check.h"
#include "mica/distributed.h"
#include "mica/mica.h"

namespace mica::ranks {

using Words = std::vector<std::string>;

struct Scenario {
  const char* name;
  void (*run)(const Words& arguments);
};
const std::vector<Scenario>& scenarios();

void collectives(const Words&);
void gradients(const Words&);
void compiled(const Words&);
void groups(const Words&);
void letters(const Words&);
void large(const Words&);
void training(const Words&);
void accumulation(const Words&);
void unused(const Words&);
void compression(const Words&);
void sharding(const Words&);
void checkpoints(const Words&);
void batch_norm(const Words&);
void loader(const Words&);
void trainer(const Words&);
void buffers(const Words&);
void hang(const Words&);
void die(const Words&);
void raise(const Words&);
void mismatch(const Words&);
void mismatches(const Words&);
void bandwidth(const Words&);

/// Where the tensors of a scenario are: MICA_TEST_DEVICE, or the CPU.
Device device();
inline bool on_cuda() { return device().is_cuda(); }
/// Makes a tensor of the scenario's device.
inline TensorOptions here(DType dtype = DType::f32) { return {.dtype = dtype, .device = device()}; }
inline Tensor constant(const Shape& shape, double value) { return full(shape, value, here()); }

/// Raises where two tensors differ in a bit.
void expect_same(const Tensor& a, const Tensor& b, const std::string& what);
/// The same of what ranks added up: on CUDA, where NCCL has an order of its own, within the
/// rounding of numbers of this size.
void expect_sum(const Tensor& a, const Tensor& b, const std::string& what);
/// Raises where an element differs by more.
void expect_close(const Tensor& a, const Tensor& b, double tolerance, const std::string& what);
/// Normal numbers that depend on the seed alone.
Tensor drawn(const Shape& shape, uint64_t seed, DType dtype = DType::f32);

}  // namespace mica::ranks
