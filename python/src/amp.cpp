// mica.amp: regions of low precision, and the scaling of losses and gradients.
#include "mica/amp/amp.h"

#include "python/src/bindings.h"
#include "python/src/values.h"

namespace mica::python {
namespace {

using amp::GradScaler;
using amp::GradScalerOptions;

/// "cuda", "cuda:0" or a device: of which kind.
DeviceKind kind_of(nb::handle device) { return parse_device(device).kind; }

DType low_of(DeviceKind kind, std::optional<DType> dtype) {
  return dtype.value_or(default_low(kind));
}

/// `with mica.autocast(…):` in this thread. It may be entered again inside itself.
class AutocastContext {
 public:
  AutocastContext(DeviceKind kind, DType dtype, bool enabled)
      : kind_(kind), low_(enabled ? std::optional(dtype) : std::nullopt) {
    with_low({}, kind, dtype);
  }
  void enter() { before_.push_back(enter_autocast(with_low(autocast_mode(), kind_, low_))); }
  void exit() {
    check(!before_.empty(), "autocast: __exit__ without __enter__");
    leave_autocast(before_.back());
    before_.pop_back();
  }

 private:
  DeviceKind kind_;
  std::optional<DType> low_;
  std::vector<AutocastMode> before_;
};

/// A value of PyTorch's state_dict, or of a tensor.
double number_in(const nb::dict& state, const char* name) {
  check(state.contains(name), "GradScaler: the state has no \"{}\"", name);
  return nb::cast<double>(nb::float_(state[name]));
}

void bind_grad_scaler(nb::module_& m) {
  nb::class_<GradScaler>(m, "GradScaler",
                         "Scales losses so that gradients of float16 keep their digits, scales the "
                         "gradients back, and leaves steps out whose gradients are not finite. "
                         "All of it stays on the device.")
      .def(
          "__init__",
          [](GradScaler* self, nb::handle device, double init_scale, double growth_factor,
             double backoff_factor, int64_t growth_interval, bool enabled) {
            // As in PyTorch, nothing happens where there is no such device.
            const Device d = parse_device(device);
            const bool there = !d.is_cuda() || cuda_available();
            const GradScalerOptions options{.init_scale = init_scale,
                                            .growth_factor = growth_factor,
                                            .backoff_factor = backoff_factor,
                                            .growth_interval = growth_interval,
                                            .enabled = enabled && there};
            without_gil([&] { new (self) GradScaler(there ? d : Device::cpu(), options); });
          },
          "device"_a = "cuda", "init_scale"_a = 65536.0, "growth_factor"_a = 2.0,
          "backoff_factor"_a = 0.5, "growth_interval"_a = 2000, "enabled"_a = true)
      .def(
          "scale",
          [](const GradScaler& self, const nb::object& outputs) {
            const Values given = values_from(outputs, ValuesPath("outputs"));
            return values_to_python(without_gil(
                [&] { return map_leaves(given, [&](const Tensor& t) { return self.scale(t); }); }));
          },
          "outputs"_a, "outputs, a tensor or several, times the scale, for backward.")
      .def(
          "unscale_",
          [](GradScaler& self, const optim::Optimizer& optimizer) {
            without_gil([&] { self.unscale(optimizer); });
          },
          "optimizer"_a,
          "Scales the gradients of the optimizer's parameters back before step() does, for who "
          "clips them.")
      .def(
          "step",
          [](GradScaler& self, optim::Optimizer& optimizer) {
            without_gil([&] { self.step(optimizer); });
          },
          "optimizer"_a, "The optimizer's step, left out where a gradient is not finite.")
      .def(
          "update",
          [](GradScaler& self, std::optional<double> new_scale) {
            without_gil([&] {
              self.update();
              if (new_scale) self.set_scale(*new_scale);
            });
          },
          "new_scale"_a = nb::none(),
          "After the steps of all optimizers: sets the scale for the next ones.")
      .def("get_scale", &GradScaler::get_scale, ReleaseGil(), "The scale; waits for the device.")
      .def("is_enabled", &GradScaler::is_enabled, "Whether it scales at all.")
      .def(
          "get_growth_factor", [](const GradScaler& self) { return self.options().growth_factor; },
          "What the scale grows by.")
      .def("set_growth_factor", &GradScaler::set_growth_factor, ReleaseGil(), "new_factor"_a,
           "Another one from now on.")
      .def(
          "get_backoff_factor",
          [](const GradScaler& self) { return self.options().backoff_factor; },
          "What the scale is multiplied by where gradients are not finite.")
      .def("set_backoff_factor", &GradScaler::set_backoff_factor, ReleaseGil(), "new_factor"_a,
           "Another one from now on.")
      .def(
          "get_growth_interval",
          [](const GradScaler& self) { return self.options().growth_interval; },
          "Steps without an overflow until the scale grows.")
      .def("set_growth_interval", &GradScaler::set_growth_interval, ReleaseGil(), "new_interval"_a,
           "Another one from now on.")
      .def(
          "state_dict",
          [](const GradScaler& self) {
            nb::dict state;
            if (!self.is_enabled()) return state;
            const double tracker =
                without_gil([&] { return self.state_dict().at("growth_tracker").item(); });
            state["scale"] = without_gil([&] { return self.get_scale(); });
            state["growth_factor"] = self.options().growth_factor;
            state["backoff_factor"] = self.options().backoff_factor;
            state["growth_interval"] = self.options().growth_interval;
            state["_growth_tracker"] = static_cast<int64_t>(tracker);
            return state;
          },
          "Scale, counter and options; waits for the device.")
      .def(
          "load_state_dict",
          [](GradScaler& self, const nb::dict& state) {
            if (!self.is_enabled()) return;
            const double scale = number_in(state, "scale");
            const auto tracker = static_cast<int64_t>(number_in(state, "_growth_tracker"));
            const double growth = number_in(state, "growth_factor");
            const double backoff = number_in(state, "backoff_factor");
            const auto interval = static_cast<int64_t>(number_in(state, "growth_interval"));
            without_gil([&] {
              self.load_state_dict({{"scale", full({}, scale)},
                                    {"growth_tracker", full({}, tracker, {DType::i64})}});
              self.set_growth_factor(growth);
              self.set_backoff_factor(backoff);
              self.set_growth_interval(interval);
            });
          },
          "state_dict"_a, "Takes scale, counter and options over.");
}

}  // namespace

void bind_amp(nb::module_& m) {
  nb::class_<AutocastContext>(m, "_Autocast", "What mica.autocast enters.")
      .def("__enter__", &AutocastContext::enter)
      .def("__exit__", [](AutocastContext& self, const nb::args&) { self.exit(); });
  m.def(
      "_make_autocast",
      [](nb::handle device_type, std::optional<DType> dtype, bool enabled) {
        const DeviceKind kind = kind_of(device_type);
        return new AutocastContext(kind, low_of(kind, dtype), enabled);
      },
      "device_type"_a, "dtype"_a = nb::none(), "enabled"_a = true, nb::rv_policy::take_ownership);
  m.def(
      "is_autocast_enabled",
      [](nb::handle device_type) {
        return autocast_mode().low[static_cast<size_t>(kind_of(device_type))].has_value();
      },
      "device_type"_a = "cuda", "Whether autocast is on for this kind of device in this thread.");
  m.def(
      "get_autocast_dtype",
      [](nb::handle device_type) {
        const DeviceKind kind = kind_of(device_type);
        return low_of(kind, autocast_mode().low[static_cast<size_t>(kind)]);
      },
      "device_type"_a = "cuda", "The low dtype of autocast there, or the one it would have.");
  nb::module_ scope = add_submodule(m, "amp");
  bind_grad_scaler(scope);
}

}  // namespace mica::python
