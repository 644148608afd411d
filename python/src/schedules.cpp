// Learning rates: schedules, and the schedulers that PyTorch's are made from.
#include <nanobind/stl/map.h>

#include "mica/op/dispatch.h"
#include "mica/optim/optim.h"
#include "python/src/bindings.h"

namespace mica::python {
namespace {

using namespace optim;

CyclicMode cyclic_mode(const std::string& name) {
  if (name == "triangular") return CyclicMode::triangular;
  if (name == "triangular2") return CyclicMode::triangular2;
  check(name == "exp_range",
        "optim::cyclic: mode must be 'triangular', 'triangular2' or 'exp_range', got '{}'", name);
  return CyclicMode::exp_range;
}

void bind_schedules(nb::module_& m) {
  nb::class_<Schedule>(m, "Schedule", "A learning rate as a function of the number of steps done.")
      .def("at", &Schedule::at, "step"_a, "The factor of the base rate after `step` steps.")
      .def("lr_at", &Schedule::lr_at, "base_lr"_a, "step"_a, "The rate after `step` steps.")
      .def("warmup", &Schedule::warmup, "steps"_a, "start"_a = 1.0 / 3,
           "This schedule after steps in which the rate rises linearly to the base rate.")
      .def("__eq__", [](const Schedule& a, const Schedule& b) { return a == b; });
  m.def("constant", [] { return constant(); }, "The base rate throughout.");
  m.def(
      "step", [](int64_t every, double gamma) { return step({every, gamma}); }, "every"_a,
      "gamma"_a = 0.1, "Times gamma after every so many steps.");
  m.def(
      "multi_step",
      [](std::vector<int64_t> milestones, double gamma) {
        return multi_step({std::move(milestones), gamma});
      },
      "milestones"_a, "gamma"_a = 0.1, "Times gamma at each milestone.");
  m.def(
      "exponential", [](double gamma) { return exponential({gamma}); }, "gamma"_a,
      "Times gamma after each step.");
  m.def(
      "cosine", [](int64_t steps, double min_lr) { return cosine({steps, min_lr}); }, "steps"_a,
      "min_lr"_a = 0.0, "From the base rate to min_lr along half a cosine.");
  m.def(
      "linear", [](int64_t steps, double start, double end) { return linear({steps, start, end}); },
      "steps"_a, "start"_a = 1.0, "end"_a = 0.0,
      "From start times the base rate to end times it along a line.");
  m.def(
      "constant_factor",
      [](double factor, int64_t steps) { return constant_factor({factor, steps}); },
      "factor"_a = 1.0 / 3, "steps"_a = 5, "Times a factor for so many steps.");
  m.def(
      "cosine_periodic",
      [](int64_t steps, double min_lr) { return cosine_periodic({steps, min_lr}); }, "steps"_a,
      "min_lr"_a = 0.0, "Along a cosine between the base rate and min_lr, up and down.");
  m.def(
      "cosine_restarts",
      [](int64_t steps, int64_t grows, double min_lr) {
        return cosine_restarts({steps, grows, min_lr});
      },
      "steps"_a, "grows"_a = 1, "min_lr"_a = 0.0,
      "From the base rate to min_lr along half a cosine, and anew after each period.");
  m.def(
      "polynomial", [](int64_t steps, double power) { return polynomial({steps, power}); },
      "steps"_a, "power"_a = 1.0, "Times (1 - step / steps) ** power; after steps zero.");
  m.def(
      "cyclic",
      [](double low, int64_t steps_up, int64_t steps_down, const std::string& mode, double gamma) {
        return cyclic({low, steps_up, steps_down, cyclic_mode(mode), gamma});
      },
      "low"_a, "steps_up"_a = 2000, "steps_down"_a = 0, "mode"_a = "triangular", "gamma"_a = 1.0,
      "Between low times the base rate and the base rate, up and down along lines.");
  m.def(
      "sequential",
      [](const std::vector<Schedule>& schedules, const std::vector<int64_t>& milestones) {
        return sequential(schedules, milestones);
      },
      "schedules"_a, "milestones"_a,
      "One schedule after the other; each starts from its own step 0 at its milestone.");
  m.def(
      "chained", [](const std::vector<Schedule>& schedules) { return chained(schedules); },
      "schedules"_a, "All at once: each works on the rate that those before it give.");
  const nb::class_<MomentumSchedule> momentum(m, "MomentumSchedule",
                                              "A momentum over the calls of step().");
  m.def(
      "one_cycle_momentum",
      [](int64_t steps, double pct_start, bool lines, bool three_phase, double least, double most) {
        return one_cycle_momentum(
            {.steps = steps, .pct_start = pct_start, .lines = lines, .three_phase = three_phase},
            least, most);
      },
      "steps"_a, "pct_start"_a = 0.3, "lines"_a = false, "three_phase"_a = false, "least"_a = 0.85,
      "most"_a = 0.95, "The momentum of OneCycleLR: from most to least while the rate rises.");
  m.def(
      "cyclic_momentum",
      [](int64_t steps_up, int64_t steps_down, const std::string& mode, double gamma, double least,
         double most) {
        return cyclic_momentum({0, steps_up, steps_down, cyclic_mode(mode), gamma}, least, most);
      },
      "steps_up"_a = 2000, "steps_down"_a = 0, "mode"_a = "triangular", "gamma"_a = 1.0,
      "least"_a = 0.8, "most"_a = 0.9,
      "The momentum of CyclicLR: highest where the rate is lowest.");
  m.def(
      "one_cycle",
      [](int64_t steps, double pct_start, double div_factor, double final_div_factor, bool lines,
         bool three_phase) {
        return one_cycle({steps, pct_start, div_factor, final_div_factor, lines, three_phase});
      },
      "steps"_a, "pct_start"_a = 0.3, "div_factor"_a = 25.0, "final_div_factor"_a = 1e4,
      "lines"_a = false, "three_phase"_a = false,
      "Rises to the base rate and falls again, as PyTorch's OneCycleLR.");
  m.def(
      "warmup",
      [](int64_t steps, double start, const std::optional<Schedule>& then) {
        return warmup({.steps = steps, .start = start, .then = then.value_or(Schedule())});
      },
      "steps"_a, "start"_a = 1.0 / 3, "then"_a = nb::none(), "then.warmup(steps, start).");
  m.def(
      "time_decay", [](double decay) { return time_decay({decay}); }, "decay"_a,
      "lr / (1 + decay * step).");
}

void bind_schedulers(nb::module_& m) {
  nb::class_<RateWriter>(m, "RateWriter", "What writes to an optimizer's rates.")
      .def_prop_ro(
          "optimizer", [](const RateWriter& self) -> Optimizer& { return self.optimizer(); },
          nb::rv_policy::reference, "Whose rates they are.")
      .def("get_last_lr", &RateWriter::get_last_lr, ReleaseGil(),
           "The rates of the groups; waits for the device.")
      .def("state_dict", &RateWriter::state_dict,
           "What it needs to go on, by name; shares its memory.")
      .def("load_state_dict", &RateWriter::load_state_dict, "state_dict"_a, ReleaseGil(),
           "Copies values in. A missing, unknown or misshapen entry raises, and then nothing was "
           "changed.");
  nb::class_<LRScheduler, RateWriter>(
      m, "LRScheduler",
      "A schedule over the number of calls of step(), which may be part of a compiled step.",
      nb::dynamic_attr())
      .def(
          "__init__",
          [](LRScheduler* self, Optimizer& optimizer, const Schedule& schedule, int64_t last_epoch,
             const std::optional<MomentumSchedule>& momentum) {
            without_gil([&] { new (self) LRScheduler(optimizer, schedule, last_epoch, momentum); });
          },
          "optimizer"_a, "schedule"_a, "last_epoch"_a = -1, "momentum"_a.none() = nb::none(),
          nb::keep_alive<1, 2>(), "momentum: what one_cycle_momentum or cyclic_momentum gives.")
      .def("step", &LRScheduler::step, ReleaseGil(), "Goes on to the next rate.")
      .def_prop_ro("last_epoch", &LRScheduler::last_epoch, ReleaseGil(),
                   "The calls of step(); waits for the device.")
      .def_prop_ro("schedule", &LRScheduler::schedule, "The rate over the calls of step().");
  nb::class_<ReduceLROnPlateau, RateWriter>(
      m, "ReduceLROnPlateau", "Cuts the rates when a metric has stopped getting better.",
      nb::dynamic_attr())
      .def(
          "__init__",
          [](ReduceLROnPlateau* self, Optimizer& optimizer, const std::string& mode, double factor,
             int64_t patience, double threshold, const std::string& threshold_mode,
             int64_t cooldown, double min_lr, double eps) {
            check(mode == "min" || mode == "max",
                  "optim::ReduceLROnPlateau: mode must be 'min' or 'max', got '{}'", mode);
            check(threshold_mode == "rel" || threshold_mode == "abs",
                  "optim::ReduceLROnPlateau: threshold_mode must be 'rel' or 'abs', got '{}'",
                  threshold_mode);
            const PlateauOptions options{mode == "max",           factor,   patience, threshold,
                                         threshold_mode == "abs", cooldown, min_lr,   eps};
            without_gil([&] { new (self) ReduceLROnPlateau(optimizer, options); });
          },
          "optimizer"_a, "mode"_a = "min", "factor"_a = 0.1, "patience"_a = 10,
          "threshold"_a = 1e-4, "threshold_mode"_a = "rel", "cooldown"_a = 0, "min_lr"_a = 0.0,
          "eps"_a = 1e-8, nb::keep_alive<1, 2>())
      .def(
          "step", [](ReduceLROnPlateau& self, const Tensor& metrics) { self.step(metrics); },
          "metrics"_a, ReleaseGil(), "Takes note of a metric, one number.")
      .def(
          "step", [](ReduceLROnPlateau& self, double metrics) { self.step(metrics); }, "metrics"_a,
          ReleaseGil());
}

/// For schedulers that are written in Python.
void bind_claims(nb::module_& m) {
  m.def("_captures", [] { return current_recorder() != nullptr; });
  m.def(
      "_claim_rates",
      [](Optimizer& optimizer, nb::handle writer) {
        check(optimizer.schedule() == Schedule(),
              "{}: the optimizer follows a schedule of its own; set it to constant()",
              class_name(writer));
        optimizer.claim_rates(writer.ptr());
        return optimizer.initial_rates();
      },
      "optimizer"_a, "writer"_a);
  m.def(
      "_check_rates",
      [](const Optimizer& optimizer, nb::handle writer) {
        check(optimizer.rates_writer() == writer.ptr(),
              "{}: another scheduler of this optimizer was made after it; join them into one, as "
              "SequentialLR and ChainedScheduler do",
              class_name(writer));
      },
      "optimizer"_a, "writer"_a);
}

}  // namespace

void bind_schedules_and_schedulers(nb::module_& m) {
  bind_schedules(m);
  bind_schedulers(m);
  bind_claims(m);
}

}  // namespace mica::python
