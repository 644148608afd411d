#pragma once

#include <cstdint>
#include <string>

namespace mica {

/// Same inputs, same machine, same bits: heuristics instead of timing, deterministic kernels only.
void set_deterministic(bool on);
bool deterministic();

/// Lets products on CUDA trade precision for speed: f32 by TF32 tensor cores, f16 and bf16 with
/// partial sums kept in their own dtype; off by default, also turned on by MICA_TF32=1.
void set_allow_tf32(bool on);
bool allow_tf32();

/// Times the candidates on the device where several can compute an op, and takes the fastest; off
/// by default, also turned on by MICA_AUTOTUNE=1. Ignored while `deterministic` is on. Answers are
/// kept on disk (op/tuning.h).
void set_autotune(bool on);
bool autotune();

/// The most bytes of scratch memory that a convolution's algorithm on CUDA may ask for; 1 GiB by
/// default.
void set_conv_workspace_limit(int64_t bytes);
int64_t conv_workspace_limit();

/// Prints each candidate, refusal and choice to stderr, as MICA_VERBOSE=dispatch does.
void set_verbose_dispatch(bool on);
bool verbose_dispatch();

/// Prints to stderr what compiled functions capture and why, what passes change and what is
/// planned, as MICA_VERBOSE=compile does.
void set_verbose_compile(bool on);
bool verbose_compile();

/// Forces the kernel of an op, as MICA_KERNEL=conv2d:direct,matmul:reference does; an empty kernel
/// name lifts it.
void force_kernel(const std::string& op, const std::string& kernel);
/// The forced kernel's name; empty when none is.
std::string forced_kernel(const std::string& op);

/// Changes whenever a setting does that kernels are chosen by, or plans are made by.
uint64_t settings_stamp();
/// Changes the stamp, for a setting that is kept elsewhere.
void settings_changed();

/// Threads used by CPU kernels, in whichever thread they are called; at first OpenMP's choice (one
/// per core, or OMP_NUM_THREADS).
void set_num_threads(int threads);
int num_threads();
/// OpenMP keeps the number per calling thread: brings this thread's up to date. What runs kernels
/// calls it. Where the system gives the process fewer threads, there are fewer. In a process that
/// was forked from one in which kernels ran on several, it raises DeviceError: those threads are
/// not there.
void adopt_num_threads();
/// Kernels called in this thread use no other.
void use_one_thread();

}  // namespace mica
