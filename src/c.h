#ifndef MICA_C_H
#define MICA_C_H

/* mica for C and for languages that call C. C11; one header; docs/c.md is the guide.
 *
 * Every function that can fail gives a mica_status; mica_last_error() is then the reason in words,
 * of the calling thread. Results come through pointers, and are left alone where a call fails.
 * What a function gives out as a handle is the caller's, who frees it with the function of its
 * kind; NULL may be freed. Any number of threads may call; a handle is used by one at a time. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): C's names */

/* Grows when a function or a value is added. Nothing is taken away or changed. */
#define MICA_C_VERSION 3
/* That of the library. */
int mica_c_version(void);
/* "0.1.0". */
const char* mica_library_version(void);

/* Errors */

typedef enum mica_status {
  MICA_OK = 0,
  MICA_ERROR = 1, /* an argument that is wrong in another way than those below */
  MICA_SHAPE_ERROR = 2,
  MICA_DTYPE_ERROR = 3,
  MICA_DEVICE_ERROR = 4,
  MICA_OUT_OF_MEMORY = 5,
  MICA_IO_ERROR = 6,
  MICA_INDEX_ERROR = 7,
  MICA_UNSUPPORTED = 8
} mica_status;

/* Why the last call of this thread failed; "" before the first that did. Valid until the next. */
const char* mica_last_error(void);
/* "shape error". */
const char* mica_status_name(mica_status status);

/* Devices */

typedef enum mica_device_kind { MICA_CPU = 0, MICA_CUDA = 1 } mica_device_kind;

typedef struct mica_device {
  int32_t kind; /* a mica_device_kind */
  int32_t index;
} mica_device;

mica_status mica_device_count(mica_device_kind kind, int* count);
/* Waits for everything sent to it. */
mica_status mica_synchronize(mica_device device);
/* Of all devices' random numbers. */
mica_status mica_seed(uint64_t seed);
/* Threads of kernels on the CPU. */
mica_status mica_set_threads(int threads);

/* Tensors */

typedef enum mica_dtype {
  MICA_F64 = 0,
  MICA_F32 = 1,
  MICA_F16 = 2,
  MICA_BF16 = 3,
  MICA_F8_E4M3 = 4,
  MICA_F8_E5M2 = 5,
  MICA_I64 = 6,
  MICA_I32 = 7,
  MICA_I16 = 8,
  MICA_I8 = 9,
  MICA_U64 = 10,
  MICA_U32 = 11,
  MICA_U16 = 12,
  MICA_U8 = 13,
  MICA_BOOL = 14,
  MICA_C64 = 15, /* two f32 */
  MICA_C128 = 16
} mica_dtype;

typedef struct mica_tensor mica_tensor;

/* Zeros. */
mica_status mica_tensor_new(const int64_t* shape, int rank, mica_dtype dtype, mica_device device,
                            mica_tensor** tensor);
/* A copy of values of the host, row-major. */
mica_status mica_tensor_from_host(const void* values, const int64_t* shape, int rank,
                                  mica_dtype dtype, mica_device device, mica_tensor** tensor);
/* On memory that stays where it is, on `device`. `strides` count elements; NULL: row-major.
 * `release(context)` is called when the last tensor on it is gone; NULL: the memory outlives them.
 */
mica_status mica_tensor_from_memory(void* memory, const int64_t* shape, const int64_t* strides,
                                    int rank, mica_dtype dtype, mica_device device,
                                    void (*release)(void* context), void* context,
                                    mica_tensor** tensor);
/* Another handle to the same tensor. */
mica_status mica_tensor_share(const mica_tensor* tensor, mica_tensor** other);
void mica_tensor_free(mica_tensor* tensor);

/* Of NULL, as a result that is none comes, these are 0, NULL, MICA_F64 and the CPU. */
int mica_tensor_rank(const mica_tensor* tensor);
/* rank sizes, and strides in elements; valid as long as the handle. */
const int64_t* mica_tensor_shape(const mica_tensor* tensor);
const int64_t* mica_tensor_strides(const mica_tensor* tensor);
int64_t mica_tensor_numel(const mica_tensor* tensor);
mica_dtype mica_tensor_dtype(const mica_tensor* tensor);
mica_device mica_tensor_device(const mica_tensor* tensor);
/* Bytes of an element. */
size_t mica_dtype_size(mica_dtype dtype);

/* The first element, on the tensor's device. */
mica_status mica_tensor_data(const mica_tensor* tensor, void** data);
/* All values, row-major; `bytes` must be just enough. */
mica_status mica_tensor_to_host(const mica_tensor* tensor, void* values, size_t bytes);
/* Overwrites the tensor. */
mica_status mica_tensor_copy_from_host(mica_tensor* tensor, const void* values, size_t bytes);
/* On another device: a copy, or a handle to the same where it is there already. */
mica_status mica_tensor_to_device(const mica_tensor* tensor, mica_device device,
                                  mica_tensor** other);
/* The value of one element. */
mica_status mica_tensor_item(const mica_tensor* tensor, double* value);

/* DLPack's struct DLManagedTensor, whose header need not be there. The memory is shared. On CUDA
 * both sides see to the order themselves: mica_synchronize before memory changes hands. */
struct DLManagedTensor;
mica_status mica_tensor_to_dlpack(const mica_tensor* tensor, struct DLManagedTensor** managed);
/* Takes `managed` over, also where it fails. */
mica_status mica_tensor_from_dlpack(struct DLManagedTensor* managed, mica_tensor** tensor);

/* Calls by name: every function of mica.h and of libraries that mica_load_ops opened */

typedef enum mica_argument_kind {
  MICA_ARG_NONE = 0,
  MICA_ARG_TENSOR = 1,
  MICA_ARG_TENSORS = 2, /* `count` of them */
  MICA_ARG_BOOL = 3,
  MICA_ARG_INT = 4,
  MICA_ARG_FLOAT = 5,
  MICA_ARG_INTS = 6, /* `count` of them: sizes, axes */
  MICA_ARG_TEXT = 7,
  MICA_ARG_DTYPE = 8,
  MICA_ARG_DEVICE = 9,
  MICA_ARG_FLOATS = 10,  /* `count` of them */
  MICA_ARG_COMPLEX = 11, /* `numbers`: two, of which the second is the imaginary part */
  MICA_ARG_LIST = 12     /* `count` arguments without names: two lists of axes, pairs of sizes */
} mica_argument_kind;

typedef struct mica_argument {
  const char* name; /* of the parameter; NULL for one by its place, before all that have names */
  mica_argument_kind kind;
  size_t count;
  union {
    const mica_tensor* tensor; /* NULL: none */
    const mica_tensor* const* tensors;
    bool boolean;
    int64_t integer;
    double number;
    const int64_t* integers;
    const char* text;
    mica_dtype dtype;
    mica_device device;
    const double* numbers;
    const struct mica_argument* list;
  } value;
} mica_argument;

/* `*count` is the room in `results` before, and how many there are after. A number or a bool comes
 * as a tensor of one element. Raises where there is not room enough. */
mica_status mica_call(const char* function, const mica_argument* arguments, size_t arguments_count,
                      mica_tensor** results, size_t* count);
/* The names of all functions, one after the other; NULL behind the last. */
const char* mica_function_name(size_t number);
/* Its documentation; NULL where there is none of that name. */
const char* mica_function_doc(const char* function);
/* Opens a library of operators; see docs/kernels.md. */
mica_status mica_load_ops(const char* path);

/* Gradients */

mica_status mica_tensor_set_requires_grad(mica_tensor* tensor, bool on);
/* false of NULL. */
bool mica_tensor_requires_grad(const mica_tensor* tensor);
/* What backward has accumulated; NULL where there is none. */
mica_status mica_tensor_grad(const mica_tensor* tensor, mica_tensor** grad);
mica_status mica_tensor_clear_grad(mica_tensor* tensor);
/* `cotangent` may be NULL for a tensor of one element. */
mica_status mica_backward(const mica_tensor* tensor, const mica_tensor* cotangent);
/* Whether calls of this thread are recorded; gives what it was. */
bool mica_set_grad_enabled(bool on);

/* Models */

typedef struct mica_model mica_model;

/* An architecture by name, "resnet18", with random weights. `classes` 0 and `channels` 0 are the
 * architecture's own. */
mica_status mica_model_new(const char* architecture, int64_t classes, int64_t channels,
                           mica_model** model);
/* The names; NULL behind the last. */
const char* mica_model_name(size_t number);
/* A model of ONNX with its weights. */
mica_status mica_model_from_onnx(const char* path, mica_model** model);
void mica_model_free(mica_model* model);
/* Weights as a safetensors file, whose keys must be those of the model. */
mica_status mica_model_load(mica_model* model, const char* path);
mica_status mica_model_save(const mica_model* model, const char* path);
mica_status mica_model_to_device(mica_model* model, mica_device device);
mica_status mica_model_to_dtype(mica_model* model, mica_dtype dtype);
/* Training, or evaluation, which it is in at first. */
mica_status mica_model_train(mica_model* model, bool on);
/* Handles to its parameters; `*count` as in mica_call. `results` may be NULL to ask for the count.
 */
mica_status mica_model_parameters(const mica_model* model, mica_tensor** results, size_t* count);
/* The name of one, valid as long as the model; NULL behind the last, and of NULL. */
const char* mica_model_parameter_name(const mica_model* model, size_t number);
/* Its result for an input, recorded where gradients are on. */
mica_status mica_model_call(const mica_model* model, const mica_tensor* input,
                            mica_tensor** output);
/* Its results, however many, for `inputs_count` inputs in their order; `*count` as in mica_call. */
mica_status mica_model_call_all(const mica_model* model, const mica_tensor* const* inputs,
                                size_t inputs_count, mica_tensor** results, size_t* count);
/* What mica_model_call gives, by a compiled function without a gradient: captured for each shape
 * at its first call. */
mica_status mica_model_run(mica_model* model, const mica_tensor* input, mica_tensor** output);

/* Training */

typedef struct mica_trainer mica_trainer;

typedef struct mica_trainer_options {
  const char* optimizer; /* "sgd", "adam", "adamw"; NULL: "sgd" */
  const char*
      loss;  /* a function of (output, target): "cross_entropy", "mse_loss"; NULL: the first */
  double lr; /* 0: 0.01 for sgd, 0.001 for the others */
  double momentum; /* of sgd */
  double weight_decay;
} mica_trainer_options;

/* Steps that train a model, each one compiled: forward, loss, backward and update. The model must
 * be on its device already, and is put in training. `options` may be NULL. */
mica_status mica_trainer_new(mica_model* model, const mica_trainer_options* options,
                             mica_trainer** trainer);
void mica_trainer_free(mica_trainer* trainer);
/* One step with a batch; the loss before it, unless `loss` is NULL, which then need not be waited
 * for. */
mica_status mica_trainer_step(mica_trainer* trainer, const mica_tensor* input,
                              const mica_tensor* target, double* loss);
mica_status mica_trainer_set_lr(mica_trainer* trainer, double lr);

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif
