// cuFFT, which is opened when a transform on CUDA is first asked for.
#include <dlfcn.h>

#include <algorithm>
#include <mutex>

#include "mica/core/check.h"
#include "mica/op/kernel.h"
#include "mica/ops/fft/cuda_scale.h"
#include "mica/ops/fft/lines.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/not_recordable.h"

namespace mica {
namespace {

/// Of cufft.h, which only who builds against the library needs: its functions by their C
/// signatures.
struct Cufft {
  using Handle = int;
  enum Type : int { r2c = 0x2a, c2r = 0x2c, c2c = 0x29, d2z = 0x6a, z2d = 0x6c, z2z = 0x69 };

  int (*create)(Handle*);
  int (*set_auto_allocation)(Handle, int);
  int (*make_plan)(Handle, int, long long*, long long*, long long, long long, long long*, long long,
                   long long, Type, long long, size_t*);
  int (*set_stream)(Handle, cudaStream_t);
  int (*set_work_area)(Handle, void*);
  int (*exec_c2c)(Handle, void*, void*, int);
  int (*exec_z2z)(Handle, void*, void*, int);
  int (*exec_r2c)(Handle, const void*, void*);
  int (*exec_d2z)(Handle, const void*, void*);
  int (*exec_c2r)(Handle, void*, void*);
  int (*exec_z2d)(Handle, void*, void*);
  int (*destroy)(Handle);
  std::string missing;  ///< why it cannot be used

  static const Cufft& get() {
    static const Cufft* const library = new Cufft;
    return *library;
  }

 private:
  Cufft() {
    void* handle = nullptr;
    for (const char* name : {"libcufft.so.12", "libcufft.so.11"})
      if (!handle) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      missing = "cuFFT was not found: libcufft.so.12 is not where libraries are looked for";
      return;
    }
    const auto find = [&]<class F>(F& f, const char* name) {
      f = reinterpret_cast<F>(dlsym(handle, name));
      if (!f && missing.empty()) missing = fmt::format("this cuFFT has no {}", name);
    };
    find(create, "cufftCreate");
    find(set_auto_allocation, "cufftSetAutoAllocation");
    find(make_plan, "cufftMakePlanMany64");
    find(set_stream, "cufftSetStream");
    find(set_work_area, "cufftSetWorkArea");
    find(exec_c2c, "cufftExecC2C");
    find(exec_z2z, "cufftExecZ2Z");
    find(exec_r2c, "cufftExecR2C");
    find(exec_d2z, "cufftExecD2Z");
    find(exec_c2r, "cufftExecC2R");
    find(exec_z2d, "cufftExecZ2D");
    find(destroy, "cufftDestroy");
  }
};

void check_cufft(int status, const char* call) {
  check<DeviceError>(status == 0, "{} failed with status {}", call, status);
}

/// A plan for all lines of a call, or all blocks of the last axes. Its handle holds the stream and
/// the workspace of a run: one thread at a time.
struct Plan : KernelState {
  Plan(const Shape& whole, int64_t axes, Cufft::Type type) {
    const Cufft& library = Cufft::get();
    long long sizes[kMostAxes];
    int64_t each = 1;
    for (int i = 0; i < axes; ++i)
      each *= sizes[i] = whole[whole.rank() - static_cast<int>(axes) + i];
    const int64_t count = numel(whole) / std::max<int64_t>(each, 1);
    if (count == 0) return;
    check_cufft(library.create(&handle), "cufftCreate");
    made = true;
    check_cufft(library.set_auto_allocation(handle, 0), "cufftSetAutoAllocation");
    check_cufft(library.make_plan(handle, static_cast<int>(axes), sizes, nullptr, 1, each, nullptr,
                                  1, each, type, count, &workspace_bytes),
                "cufftMakePlanMany64");
  }
  ~Plan() override {
    if (made) Cufft::get().destroy(handle);
  }

  static constexpr int64_t kMostAxes = 3;
  Cufft::Handle handle = 0;
  bool made = false;
  size_t copy_at = 0;  ///< where in the workspace a copy of the input stands
  size_t copy_bytes = 0;
  mutable std::mutex alone;
};

bool is_double(const TensorSpec& s) { return real_dtype(s.dtype) == DType::f64; }

/// Runs a plan and multiplies what it leaves.
template <class F>
void run_plan(const Plan& plan, const Call& c, double scale, F&& execute) {
  if (c.out[0].numel() == 0) return;
  const void* in = c.in[0].data;
  if (plan.copy_bytes > 0) {
    void* const copy = static_cast<std::byte*>(c.workspace) + plan.copy_at;
    check_cuda(
        cudaMemcpyAsync(copy, in, plan.copy_bytes, cudaMemcpyDeviceToDevice, c.encoder->stream()));
    in = copy;
  }
  {
    const std::lock_guard lock(plan.alone);
    check_cufft(Cufft::get().set_stream(plan.handle, c.encoder->stream()), "cufftSetStream");
    check_cufft(Cufft::get().set_work_area(plan.handle, c.workspace), "cufftSetWorkArea");
    const int status = execute(Cufft::get(), const_cast<void*>(in));
    // Some kernels of the library cannot become part of a graph.
    if (status != 0 && c.encoder->recording()) throw NotRecordable();
    check_cufft(status, "cufftExec");
  }
  if (scale == 1) return;
  const int64_t n = c.out[0].numel() * (is_complex(c.out[0].dtype()) ? 2 : 1);
  fft::scale_values(*c.encoder, c.out[0].data, n, is_double(*c.out[0].spec), scale);
}

template <class P>
Support supports(const P&, const Specs&) {
  const std::string& missing = Cufft::get().missing;
  return missing.empty() ? Support::yes().with_contiguous({0}) : Support::no(missing);
}
Support supports_block(const BlockFftParams& p, const Specs& s) {
  if (p.axes > Plan::kMostAxes) return Support::no("it transforms up to three axes");
  return supports(p, s);
}

std::shared_ptr<Plan> plan_for(const TensorSpec& whole, int64_t axes, Cufft::Type narrow,
                               Cufft::Type wide) {
  return std::make_shared<Plan>(whole.shape, axes, is_double(whole) ? wide : narrow);
}
/// Has the input copied before it is read.
std::shared_ptr<Plan> with_copy(std::shared_ptr<Plan> plan, const TensorSpec& in) {
  constexpr size_t kAlignment = 256;
  plan->copy_at = (plan->workspace_bytes + kAlignment - 1) / kAlignment * kAlignment;
  plan->copy_bytes = static_cast<size_t>(in.numel()) * size_of(in.dtype);
  plan->workspace_bytes = plan->copy_at + plan->copy_bytes;
  return plan;
}
/// Real numbers are read two at a time.
std::shared_ptr<Plan> aligned(std::shared_ptr<Plan> plan, const TensorSpec& in) {
  return in.aligned ? plan : with_copy(std::move(plan), in);
}

std::shared_ptr<Plan> prepare(const FftParams&, const Specs& s) {
  return plan_for(s.in[0], 1, Cufft::c2c, Cufft::z2z);
}
std::shared_ptr<Plan> prepare_to_half(const RealFftParams&, const Specs& s) {
  return aligned(plan_for(s.in[0], 1, Cufft::r2c, Cufft::d2z), s.in[0]);
}
std::shared_ptr<Plan> prepare_block(const BlockFftParams& p, const Specs& s) {
  if (is_complex(s.in[0].dtype)) return plan_for(s.in[0], p.axes, Cufft::c2c, Cufft::z2z);
  return aligned(plan_for(s.in[0], p.axes, Cufft::r2c, Cufft::d2z), s.in[0]);
}
/// The library may overwrite what it reads, which is a copy therefore.
std::shared_ptr<Plan> prepare_from_half(const RealFftParams&, const Specs& s) {
  return with_copy(plan_for(s.out[0], 1, Cufft::c2r, Cufft::z2d), s.in[0]);
}

/// Of complex numbers the library fails with status 6 where a plan records it, and its handle with
/// it.
void run(const FftParams& p, const Plan& plan, const Call& c) {
  if (c.encoder->recording()) throw NotRecordable();
  run_plan(plan, c, p.scale, [&](const Cufft& library, void* in) {
    const int direction = p.inverse ? 1 : -1;
    const auto execute = is_double(*c.in[0].spec) ? library.exec_z2z : library.exec_c2c;
    return execute(plan.handle, in, c.out[0].data, direction);
  });
}
void run_to_half(const RealFftParams& p, const Plan& plan, const Call& c) {
  run_plan(plan, c, p.scale, [&](const Cufft& library, void* in) {
    const auto execute = is_double(*c.in[0].spec) ? library.exec_d2z : library.exec_r2c;
    return execute(plan.handle, in, c.out[0].data);
  });
}
void run_from_half(const RealFftParams& p, const Plan& plan, const Call& c) {
  run_plan(plan, c, p.scale, [&](const Cufft& library, void* in) {
    const auto execute = is_double(*c.in[0].spec) ? library.exec_z2d : library.exec_c2r;
    return execute(plan.handle, in, c.out[0].data);
  });
}
void run_block(const BlockFftParams& p, const Plan& plan, const Call& c) {
  is_complex(c.in[0].dtype()) ? run(FftParams{p.inverse, p.scale}, plan, c)
                              : run_to_half(RealFftParams{.scale = p.scale}, plan, c);
}

KernelList only(Kernel k) {
  k.takes_complex = true;
  return {k};
}

}  // namespace

KernelList fft_cuda_kernels() { return only(kernel<supports<FftParams>, prepare, run>("cufft")); }
KernelList fft_block_cuda_kernels() {
  return only(kernel<supports_block, prepare_block, run_block>("cufft"));
}
KernelList rfft_cuda_kernels() {
  return only(kernel<supports<RealFftParams>, prepare_to_half, run_to_half>("cufft"));
}
KernelList irfft_cuda_kernels() {
  return only(kernel<supports<RealFftParams>, prepare_from_half, run_from_half>("cufft"));
}

}  // namespace mica
