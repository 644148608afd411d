#pragma once

// Names without definitions, for headers that only mention them.
namespace mica {

class Tensor;
struct TensorSpec;
struct TensorOptions;
struct Device;
class Dims;
struct OpDef;
struct Kernel;
class Plan;
class CompiledFunction;

namespace nn {
class Module;
}

}  // namespace mica
