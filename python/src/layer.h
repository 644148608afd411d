#pragma once

// How layers are bound.
#include "mica/ops/conv/size1.h"
#include "python/src/module_handle.h"

namespace nanobind::detail {

/// One int, also in a list or a tuple.
template <>
struct type_caster<mica::Size1> {
  NB_TYPE_CASTER(mica::Size1, io_name("int | collections.abc.Sequence[int]", "int"))

  bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) noexcept {
    make_caster<mica::Dims> dims;
    if (!dims.from_python(source, flags, cleanup) || dims.value.rank() != 1) return false;
    value = dims.value[0];
    return true;
  }
  static handle from_cpp(mica::Size1 size, rv_policy, cleanup_list*) noexcept {
    return PyLong_FromLongLong(size);
  }
};

}  // namespace nanobind::detail

namespace mica::python {

template <class Impl>
using Layer = nb::class_<Impl, nn::ModuleImpl, Overridable<Impl>>;

/// Binds a layer whose `forward` is the C++ one: a class derived in Python reaches it by
/// super().forward(x).
template <class Impl>
Layer<Impl> add_layer(nb::module_& nn, const char* name, const char* doc) {
  Layer<Impl> layer(nn, name, nb::type_slots(module_slots), doc);
  allow_copies<Impl>();
  layer.def(
      "forward", [](Impl& self, const Tensor& x) { return self.Impl::forward(x); }, "input"_a,
      ReleaseGil(), doc);
  return layer;
}

/// Calls reset_parameters where a class derived in Python has one of its own, as PyTorch's layers
/// do at the end of their constructors.
inline void reset_as_overridden(nb::handle self) {
  const nb::object own = self.type().attr("reset_parameters");
  if (own.is(nb::type<nn::ModuleImpl>().attr("reset_parameters"))) return;
  nb::inst_mark_ready(self);
  self.attr("reset_parameters")();
}

/// Makes a layer in the memory of its Python object.
template <class Impl, class Options>
void construct(Impl* self, const Options& options) {
  new (self) Overridable<Impl>(WithoutGil(), options);
  if (const nb::object object = nb::find(self); object.is_valid()) reset_as_overridden(object);
}

/// Puts a new layer where device= and dtype= say.
inline void place(nn::ModuleImpl* self, nb::handle device, nb::handle dtype) {
  if (device.is_none() && dtype.is_none()) return;
  complete(self, [&] {
    const nn::Module module(std::shared_ptr<nn::ModuleImpl>(self, [](nn::ModuleImpl*) {}));
    if (!dtype.is_none()) module.to(parse_dtype(dtype));
    if (!device.is_none()) module.to(parse_device(device));
  });
}

/// An option that a layer was made with.
template <class Impl, class Get>
void def_option(Layer<Impl>& layer, const char* name, Get get, const char* doc) {
  layer.def_prop_ro(name, [get](const Impl& self) { return get(self.options); }, doc);
}
/// One that may be set later: `of(options)` is where it lies, `shown` what Python sees of it.
template <class Impl, class Of, class Shown = std::identity>
void def_settable(Layer<Impl>& layer, const char* name, Of of, const char* doc, Shown shown = {}) {
  using Value = std::remove_cvref_t<decltype(of(std::declval<Impl&>().options))>;
  using Given = SizeArgument<Value>;  // itself, of what is no size
  layer.def_prop_rw(
      name, [of, shown](const Impl& self) { return shown(of(self.options)); },
      [of](Impl& self, Given value) {
        of(self.options) = value;
        self.note_change();
      },
      doc);
}
/// A size as PyTorch's layers have it: one for each axis.
inline Dims size_of_axes(int64_t size) { return {size}; }
inline Dims size_of_axes(Size2 size) { return {size.h, size.w}; }
inline Dims size_of_axes(Size3 size) { return {size.d, size.h, size.w}; }

/// A parameter or a buffer that may be missing is None then, and is taken out by None. Another one
/// can take its place: so two layers share a weight. Where the parameter was taken out
/// (`del layer.weight`), any tensor of its shape can, one that is computed for each call as well.
template <class Impl, bool is_buffer, std::derived_from<nn::ModuleImpl> Owner>
void def_member(Layer<Impl>& layer, const char* name, nn::Member<is_buffer> Owner::* member,
                const char* doc) {
  layer.def_prop_rw(
      name,
      [member](Impl& self) -> nb::object {
        const Tensor& t = self.*member;
        if (!t.defined()) return nb::none();
        if constexpr (!is_buffer)
          if (t.is_leaf()) return parameter_object(self, t);
        return nb::cast(t);
      },
      [name, member](Impl& self, nb::handle object) {
        nn::Member<is_buffer>& t = self.*member;
        if (object.is_none()) {
          if (t.defined()) self.unregister(name);
          return t.hold(Tensor());
        }
        const auto value = nb::cast<Tensor>(object);
        const bool of_any_shape = !is_buffer && nb::isinstance<Parameter>(object);
        check<ShapeError>(of_any_shape || (t.defined() && t.shape() == value.shape()),
                          "nn.{}: '{}' must have shape {}, got {}", self.type_name(), name,
                          t.defined() ? t.shape() : Shape(), value.shape());
        is_buffer ? self.replace_buffer(name, value) : set_parameter(self, name, object);
        t.hold(value);
      },
      nb::for_setter(nb::arg("value").none()), doc);
}

// One file per family.
void bind_containers(nb::module_& nn);
void bind_linear_layers(nb::module_& nn);
void bind_conv_layers(nb::module_& nn);
void bind_norm_layers(nb::module_& nn);
void bind_activation_layers(nb::module_& nn);
void bind_pooling_layers(nb::module_& nn);
void bind_image_layers(nb::module_& nn);
void bind_joined_layers(nb::module_& nn);
void bind_recurrent_layers(nb::module_& nn);
void bind_transformer_layers(nb::module_& nn);

}  // namespace mica::python
