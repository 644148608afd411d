// Models by name, and steps that train them.
#include <functional>
#include <optional>

#include "mica/autograd/autograd.h"
#include "mica/c/handles.h"
#include "mica/graph/compile.h"
#include "mica/models/models.h"
#include "mica/onnx/onnx.h"
#include "mica/op/function.h"
#include "mica/optim/optim.h"

struct mica_model {
  mica::nn::Module module;
  mica::nn::NamedTensors parameters;  ///< for their names
  std::unique_ptr<mica::CompiledFunction> compiled;
};

struct mica_trainer {
  mica::nn::Module module;
  std::unique_ptr<mica::optim::Optimizer> optimizer;
  std::unique_ptr<mica::CompiledFunction> step;
};

namespace mica::c {
namespace {

mica_model* model_of(nn::Module module) {
  module.eval();
  return new mica_model{module, module.named_parameters(), nullptr};
}

std::unique_ptr<optim::Optimizer> optimizer_of(const mica_trainer_options& o,
                                               const Tensors& parameters) {
  const std::string name = o.optimizer ? o.optimizer : "sgd";
  const double lr = o.lr != 0 ? o.lr : name == "sgd" ? 0.01 : 0.001;
  if (name == "sgd")
    return std::make_unique<optim::SGD>(
        parameters,
        optim::SGDOptions{.lr = lr, .momentum = o.momentum, .weight_decay = o.weight_decay});
  if (name == "adam")
    return std::make_unique<optim::Adam>(
        parameters, optim::AdamOptions{.lr = lr, .weight_decay = o.weight_decay});
  if (name == "adamw")
    return std::make_unique<optim::AdamW>(
        parameters, optim::AdamWOptions{.lr = lr, .weight_decay = o.weight_decay});
  fail<Unsupported>("there is no optimizer '{}': expected sgd, adam or adamw", name);
}

Tensor loss_of(const Function& loss, const Tensor& output, const Tensor& target) {
  const Argument arguments[] = {output, target};
  const Argument result = call(loss, arguments);
  const Tensor* t = result.get<Tensor>();
  check(t && t->numel() == 1, "{}: a loss gives one number", loss.name);
  return *t;
}

}  // namespace
}  // namespace mica::c

using namespace mica::c;  // NOLINT(google-build-using-namespace)
using mica::Tensor;
using mica::Tensors;

extern "C" {

mica_status mica_model_new(const char* architecture, int64_t classes, int64_t channels,
                           mica_model** model) {
  return guarded([&] {
    const std::string name = text_of(architecture, "the architecture");
    mica_model*& result = checked(model, "model");
    if (classes == 0 && channels == 0) {
      result = model_of(mica::models::make(name));
      return;
    }
    mica::models::ModelOptions options;
    if (classes != 0) options.classes = classes;
    if (channels != 0) options.in = channels;
    result = model_of(mica::models::make(name, options));
  });
}
const char* mica_model_name(size_t number) {
  static const std::vector<std::string> names = mica::models::names();
  return number < names.size() ? names[number].c_str() : nullptr;
}
mica_status mica_model_from_onnx(const char* path, mica_model** model) {
  return guarded([&] {
    mica_model*& result = checked(model, "model");
    result = model_of(mica::onnx::load(text_of(path, "the path")));
  });
}
void mica_model_free(mica_model* model) { delete model; }

mica_status mica_model_load(mica_model* model, const char* path) {
  return guarded([&] { checked(model, "model").module.load(text_of(path, "the path")); });
}
mica_status mica_model_save(const mica_model* model, const char* path) {
  return guarded([&] { checked(model, "model").module.save(text_of(path, "the path")); });
}
mica_status mica_model_to_device(mica_model* model, mica_device device) {
  return guarded([&] { checked(model, "model").module.to(device_of(device)); });
}
mica_status mica_model_to_dtype(mica_model* model, mica_dtype dtype) {
  return guarded([&] { checked(model, "model").module.to(dtype_of(dtype)); });
}
mica_status mica_model_train(mica_model* model, bool on) {
  return guarded([&] { checked(model, "model").module.train(on); });
}
mica_status mica_model_parameters(const mica_model* model, mica_tensor** results, size_t* count) {
  return guarded([&] {
    const Tensors all = checked(model, "model").module.parameters();
    if (!results) {
      checked(count, "count") = all.size();
    } else {
      give(all, results, count);
    }
  });
}
const char* mica_model_parameter_name(const mica_model* model, size_t number) {
  return model && number < model->parameters.size() ? model->parameters[number].first.c_str()
                                                    : nullptr;
}
mica_status mica_model_call(const mica_model* model, const mica_tensor* input,
                            mica_tensor** output) {
  return guarded([&] {
    mica_tensor*& result = checked(output, "output");
    result = handle_of(checked(model, "model").module(tensor_of(input, "input")));
  });
}
mica_status mica_model_call_all(const mica_model* model, const mica_tensor* const* inputs,
                                size_t inputs_count, mica_tensor** results, size_t* count) {
  return guarded([&] {
    mica::check(inputs != nullptr || inputs_count == 0, "the inputs are NULL");
    std::vector<mica::Values> given;
    for (size_t i = 0; i < inputs_count; ++i) given.emplace_back(tensor_of(inputs[i], "an input"));
    const mica::nn::Module& module = checked(model, "model").module;
    give(flatten(module(given.size() == 1 ? given[0] : mica::Values::list(std::move(given)))),
         results, count);
  });
}
mica_status mica_model_run(mica_model* model, const mica_tensor* input, mica_tensor** output) {
  return guarded([&] {
    mica_model& m = checked(model, "model");
    mica_tensor*& result = checked(output, "output");
    if (!m.compiled)
      m.compiled = std::make_unique<mica::CompiledFunction>(mica::TensorFunction(
          [module = m.module](std::span<const Tensor> in) -> Tensors { return {module(in[0])}; }));
    const mica::NoGrad no_grad;
    const Tensor in[] = {tensor_of(input, "input")};
    result = handle_of((*m.compiled)(in)[0]);
  });
}

mica_status mica_trainer_new(mica_model* model, const mica_trainer_options* options,
                             mica_trainer** trainer) {
  return guarded([&] {
    const mica_trainer_options o = options ? *options : mica_trainer_options{};
    mica_trainer*& result = checked(trainer, "trainer");
    const mica::nn::Module module = checked(model, "model").module;
    const std::string name = o.loss ? o.loss : "cross_entropy";
    const mica::Function* loss = mica::find_function(name);
    mica::check<mica::Unsupported>(loss != nullptr, "there is no function '{}'", name);
    auto made = std::make_unique<mica_trainer>(
        mica_trainer{module, optimizer_of(o, module.parameters()), nullptr});
    module.train();
    made->step = std::make_unique<mica::CompiledFunction>(mica::TensorFunction(
        [module, loss, optimizer = made->optimizer.get()](std::span<const Tensor> in) -> Tensors {
          const Tensor value = loss_of(*loss, module(in[0]), in[1]);
          optimizer->zero_grad();
          value.backward();
          optimizer->step();
          optimizer->zero_grad();
          return {value.detach()};
        }));
    result = made.release();
  });
}
void mica_trainer_free(mica_trainer* trainer) { delete trainer; }

mica_status mica_trainer_step(mica_trainer* trainer, const mica_tensor* input,
                              const mica_tensor* target, double* loss) {
  return guarded([&] {
    const Tensor in[] = {tensor_of(input, "input"), tensor_of(target, "target")};
    const Tensor value = (*checked(trainer, "trainer").step)(in)[0];
    if (loss) *loss = value.item();
  });
}
mica_status mica_trainer_set_lr(mica_trainer* trainer, double lr) {
  return guarded([&] { checked(trainer, "trainer").optimizer->set_lr(lr); });
}

}  // extern "C"
