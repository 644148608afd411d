/* mica from C: tensors, calls by name, gradients, a model, its training, errors. */
#include <math.h>
#include <mica/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every call gives a status; here the first that fails ends the program. */
static void must(mica_status status, const char* what) {
  if (status == MICA_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, mica_status_name(status), mica_last_error());
  exit(1);
}
#define MUST(call) must(call, #call)

static void expect(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "not so: %s\n", what);
  exit(1);
}
#define EXPECT(holds) expect(holds, #holds)

static const mica_device cpu = {MICA_CPU, 0};

static mica_argument tensor(const mica_tensor* t) {
  return (mica_argument){.kind = MICA_ARG_TENSOR, .value.tensor = t};
}

/* A function of one result, of which the caller frees it. */
static mica_tensor* call(const char* function, const mica_argument* arguments, size_t n) {
  mica_tensor* result = NULL;
  size_t count = 1;
  must(mica_call(function, arguments, n, &result, &count), function);
  return result;
}

static double item(const mica_tensor* t) {
  double value = 0;
  MUST(mica_tensor_item(t, &value));
  return value;
}

/* y = sum(relu(x w)), and its gradient for w. */
static void gradients(void) {
  const float xs[] = {1, 2, 3, 4}, ws[] = {1, -1};
  const int64_t two_by_two[] = {2, 2}, two_by_one[] = {2, 1};
  mica_tensor *x, *w, *g;
  MUST(mica_tensor_from_host(xs, two_by_two, 2, MICA_F32, cpu, &x));
  MUST(mica_tensor_from_host(ws, two_by_one, 2, MICA_F32, cpu, &w));
  MUST(mica_tensor_set_requires_grad(w, true));

  const mica_argument operands[] = {tensor(x), tensor(w)};
  mica_tensor* product = call("matmul", operands, 2);
  /* Arguments by name. */
  const mica_argument scaled[] = {
      {.name = "other", .kind = MICA_ARG_FLOAT, .value.number = -2.0},
      {.name = "input", .kind = MICA_ARG_TENSOR, .value.tensor = product}};
  mica_tensor* twice = call("mul", scaled, 2);
  const mica_argument one[] = {tensor(twice)};
  mica_tensor* y = call("sum", one, 1);
  EXPECT(item(y) == 4);
  MUST(mica_backward(y, NULL));
  MUST(mica_tensor_grad(w, &g));
  float slopes[2];
  MUST(mica_tensor_to_host(g, slopes, sizeof slopes));
  EXPECT(slopes[0] == -8 && slopes[1] == -12);
  printf("gradient: %g, %g\n", (double)slopes[0], (double)slopes[1]);

  /* Several results: values and where they lie. */
  const mica_argument largest[] = {
      tensor(x), {.name = "dim", .kind = MICA_ARG_INT, .value.integer = 1}};
  mica_tensor* both[2];
  size_t count = 2;
  MUST(mica_call("max", largest, 2, both, &count));
  EXPECT(count == 2 && mica_tensor_dtype(both[1]) == MICA_I64);
  EXPECT(mica_tensor_rank(both[0]) == 1 && mica_tensor_shape(both[0])[0] == 2);

  mica_tensor* all[] = {x, w, g, product, twice, y, both[0], both[1]};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) mica_tensor_free(all[i]);
}

static int released = 0;
static void release(void* context) { *(int*)context += 1; }

/* Memory of the program's own, and DLPack. */
static void memory(void) {
  static double values[6] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {3, 2}, strides[] = {1, 3}; /* columns beside each other */
  mica_tensor *t, *back;
  MUST(mica_tensor_from_memory(values, shape, strides, 2, MICA_F64, cpu, release, &released, &t));
  double turned[6];
  MUST(mica_tensor_to_host(t, turned, sizeof turned));
  EXPECT(turned[1] == 4 && turned[2] == 2);
  struct DLManagedTensor* managed;
  MUST(mica_tensor_to_dlpack(t, &managed));
  mica_tensor_free(t);
  EXPECT(released == 0);
  MUST(mica_tensor_from_dlpack(managed, &back));
  void* data;
  MUST(mica_tensor_data(back, &data));
  EXPECT(data == (void*)values && mica_tensor_strides(back)[1] == 3);
  mica_tensor_free(back);
  EXPECT(released == 1);
}

/* Training a network on noise, whose loss falls; saving it, and loading it into another. */
static void model(const char* path) {
  mica_model *net, *copy;
  MUST(mica_seed(1));
  MUST(mica_model_new("lenet", 0, 0, &net));
  size_t parameters = 0;
  MUST(mica_model_parameters(net, NULL, &parameters));
  EXPECT(parameters == 8 && strcmp(mica_model_parameter_name(net, 0), "0.weight") == 0);
  EXPECT(mica_model_parameter_name(net, 8) == NULL);

  const mica_argument images_of[] = {
      {.kind = MICA_ARG_INTS, .count = 4, .value.integers = (const int64_t[]){32, 1, 28, 28}}};
  mica_tensor* images = call("randn", images_of, 1);
  const mica_argument labels_of[] = {
      {.kind = MICA_ARG_INT, .value.integer = 0},
      {.kind = MICA_ARG_INT, .value.integer = 10},
      {.kind = MICA_ARG_INTS, .count = 1, .value.integers = (const int64_t[]){32}}};
  mica_tensor* labels = call("randint", labels_of, 3);

  mica_trainer* trainer;
  const mica_trainer_options options = {.optimizer = "sgd", .lr = 0.05, .momentum = 0.9};
  MUST(mica_trainer_new(net, &options, &trainer));
  double first = 0, loss = 0;
  for (int step = 0; step < 20; ++step) {
    MUST(mica_trainer_step(trainer, images, labels, &loss));
    if (step == 0) first = loss;
  }
  printf("loss: %.3f, after 20 steps %.3f\n", first, loss);
  EXPECT(first > 2 && loss < first / 2);
  mica_trainer_free(trainer);

  MUST(mica_model_train(net, false));
  MUST(mica_model_save(net, path));
  MUST(mica_model_new("lenet", 10, 1, &copy));
  MUST(mica_model_load(copy, path));
  mica_tensor *eager, *compiled;
  mica_set_grad_enabled(false);
  MUST(mica_model_call(net, images, &eager));
  MUST(mica_model_run(copy, images, &compiled));
  const mica_argument pair[] = {tensor(eager), tensor(compiled),
                                {.name = "rtol", .kind = MICA_ARG_FLOAT, .value.number = 1e-4},
                                {.name = "atol", .kind = MICA_ARG_FLOAT, .value.number = 1e-4}};
  mica_tensor* same = call("allclose", pair, 4);
  EXPECT(item(same) == 1);
  mica_tensor* all[] = {images, labels, eager, compiled, same};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) mica_tensor_free(all[i]);
  mica_model_free(net);
  mica_model_free(copy);
}

/* What is wrong is told by a code and in words, and nothing ends the program. */
static void errors(void) {
  mica_tensor* t = NULL;
  mica_model* m = NULL;
  size_t count = 1;
  const int64_t negative[] = {-1};
  EXPECT(mica_tensor_new(negative, 1, MICA_F32, cpu, &t) == MICA_SHAPE_ERROR && t == NULL);
  EXPECT(mica_call("no_such_function", NULL, 0, &t, &count) == MICA_UNSUPPORTED);
  EXPECT(strstr(mica_last_error(), "no_such_function") != NULL);
  EXPECT(mica_call("relu", NULL, 0, &t, &count) == MICA_UNSUPPORTED);
  EXPECT(mica_call(NULL, NULL, 0, &t, &count) == MICA_ERROR);
  EXPECT(mica_model_new("no_such_net", 0, 0, &m) != MICA_OK && m == NULL);
  EXPECT(mica_load_ops("/no/such/file") == MICA_IO_ERROR);
  printf("an error: %s\n", mica_last_error());
  int gpus = -1;
  MUST(mica_device_count(MICA_CUDA, &gpus));
  EXPECT(gpus >= 0);
  if (gpus == 0) {
    const mica_device cuda = {MICA_CUDA, 0};
    EXPECT(mica_tensor_new(NULL, 0, MICA_F32, cuda, &t) == MICA_DEVICE_ERROR);
  }
  mica_tensor_free(NULL);
  mica_model_free(NULL);
}

int main(int argc, char** argv) {
  EXPECT(mica_c_version() >= MICA_C_VERSION);
  gradients();
  memory();
  model(argc > 1 ? argv[1] : "lenet.safetensors");
  errors();
  size_t functions = 0;
  while (mica_function_name(functions)) ++functions;
  printf("mica %s has %zu functions; conv2d: %.40s…\n", mica_library_version(), functions,
         mica_function_doc("conv2d"));
  return 0;
}
