#include "mica/op/function.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/concat/stacks.h"

namespace mica {

Functions concat_functions() {
  const auto stacked = [](const char* name, Tensor (*f)(const Tensors&), const char* doc) {
    return Function{.name = name,
                    .doc = doc,
                    .signatures = {{f, {"tensors"}}},
                    .offer = kModule,
                    .precision = Precision::widest};
  };
  const auto evenly = overload<const Tensor&, int64_t, int64_t>(split);
  const auto by_sizes = overload<const Tensor&, const std::vector<int64_t>&, int64_t>(split);
  return {
      {.name = "cat",
       .doc = "The tensors one after the other along dim, which they have; their other sizes must "
              "agree. Dtypes promote.",
       .signatures = {{concat, {"tensors", {"dim", 0}}}},
       .offer = kModule,
       .second_names = {"concat", "concatenate"},
       .op = "concat"},
      {.name = "stack",
       .doc = "The tensors, of one shape, along a new axis that becomes axis dim of the result. "
              "Dtypes promote.",
       .signatures = {{stack, {"tensors", {"dim", 0}}}},
       .offer = kModule,
       .precision = Precision::widest},
      stacked("hstack", hstack, "The tensors side by side: along axis 1, vectors along their own."),
      stacked("vstack", vstack, "The tensors one below the other: along axis 0; vectors are rows."),
      stacked("dstack", dstack,
              "The tensors one behind the other: along axis 2, which atleast_3d adds."),
      {.name = "split",
       .doc = "Views along dim: of one size, the last perhaps smaller, or of the sizes in a list, "
              "which add up to dim's.",
       .signatures = {{evenly, {"tensor", "split_size_or_sections", {"dim", 0}}},
                      {by_sizes, {"tensor", "split_size_or_sections", {"dim", 0}}}},
       .offer = kModule},
      {.name = "split",
       .doc = "Views along dim: of one size, the last perhaps smaller, or of the sizes in a list, "
              "which add up to dim's.",
       .signatures = {{evenly, {"input", "split_size", {"dim", 0}}},
                      {by_sizes, {"input", "split_size", {"dim", 0}}}},
       .offer = kMethod},
      {.name = "chunk",
       .doc = "At most `chunks` views of input that divide dim, all of one size but for the last.",
       .signatures = {{chunk, {"input", "chunks", {"dim", 0}}}}},
      {.name = "unbind",
       .doc = "Views of input at each index of dim, which they have not.",
       .signatures = {{unbind, {"input", {"dim", 0}}}}},
      {.name = "broadcast_tensors",
       .doc = "The tensors, each expanded to the shape that all of them broadcast to.",
       .signatures = {{broadcast_tensors, {spread("tensors")}}},
       .offer = kModule},
  };
}

}  // namespace mica
