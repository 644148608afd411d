"""Where the C++ and the Python names differ on purpose, and why.

test_surface.py fails on a difference that is not here, and on a line here that is none any more.
"""

# C++ names that need no counterpart, by pattern.
PATTERNS = {
    r".*(Params|Options)$": "named arguments of C++; Python has keyword arguments",
    r".*Impl$": "what a shared handle of C++ points to; a Python object is one",
    r".*_(grad|dgrad|wgrad)$": "operators of backward, which calls them",
    r".*_update$": "operators of the optimizers",
    r".*(States|Grads|Gradients)$": "several results of an operator of backward or of an update",
    r"k[A-Z]\w*": "a constant of the implementation",
}

# C++ name: the Python name, from mica on.
RENAMED = {
    "mica": {
        # PyTorch's names
        "AnomalyMode": "autograd.detect_anomaly",
        "Compiled": "CompiledFunction",
        "CustomFunction": "autograd.Function",
        "DeviceProperties": "cuda.get_device_properties",
        "FunctionContext": "autograd.FunctionCtx",
        "GradMode": "set_grad_enabled",
        "MemoryFormat": "memory_format",
        "MemoryStats": "memory_stats",
        "NoGrad": "no_grad",
        "StreamGuard": "cuda.stream",
        "Sorted": "ValuesIndices",
        "add_hook": "Tensor.register_hook",
        "add_post_accumulate_hook": "Tensor.register_post_accumulate_grad_hook",
        "apply_function": "autograd.Function.apply",
        "call_function": "autograd.Function.apply",
        "cast": "Tensor.to",
        "col2im": "nn.functional.fold",
        "cuda_available": "cuda.is_available",
        "cuda_unavailable_reason": "cuda.unavailable_reason",
        "detect_anomaly": "autograd.is_anomaly_enabled",
        "grad_enabled": "is_grad_enabled",
        "im2col": "nn.functional.unfold",
        "index": "Tensor.__getitem__",
        "left_shift": "bitwise_left_shift",
        "log_sigmoid": "nn.functional.logsigmoid",
        "normal_like": "randn_like",
        "right_shift": "bitwise_right_shift",
        "slice": "Tensor.__getitem__",
        "take_along_axis": "take_along_dim",
        "tensor_from_bytes": "from_numpy",
        "to_string": "Tensor.__repr__",
        "total_norm": "optim.clip_grad_norm_",
        "uniform_like": "rand_like",
        "upsample": "nn.functional.interpolate",
    },
    "mica::data": {"Loader": "data.DataLoader", "Epoch": "data.DataLoader.epoch"},
    "mica::nn": {"to_string": "nn.Module.__repr__"},
    "mica::nn::function": {
        "constant_pad": "nn.functional.pad",
        "flatten": "flatten",
        "hinge_embedding": "nn.functional.hinge_embedding_loss",
        "identity": "nn.Identity",
        "unflatten": "nn.Unflatten",
    },
    "mica::nn::init": {"gain": "nn.init.calculate_gain"},
}

# C++ names that Python has not, with the reason.
CPP_ONLY = {
    "mica": {
        "words in Python: mode='reflect'": (
            "Activation GeluForm GridMode GridPadding MeshIndexing PadMode UpsampleMode"
        ),
        "tuples and lists in Python": "DTypeOf Scale2 Tensors Unique dtype_of scalar",
        "operators that compiled functions use where they fit": (
            "batch_norm_act clip_by_norm clip_by_value conv2d_act conv2d_pool schedule_lr "
            "upsample2d sum_to"
        ),
        "mica.passes() has their names": "Pass",
        "the inside of tensors, devices and the tape": (
            "AutogradMeta Draw DrawScope Encoder DeviceRuntime EventState FunctionBackward "
            "FunctionNode GradHook GradHooks GradNode GradWatcher Replay StreamState "
            "adopt_num_threads check_gradients check_value current_grad_watcher "
            "exchange_grad_watcher hash_field name_of not_finite print_field rng_take runtime "
            "settings_changed settings_stamp to_rate_curve to_tensor view_of"
        ),
        "Tensor.pin_memory makes pinned tensors": "empty_pinned",
        "DataLoader(shuffle=seed) uses it; mica.manual_seed with mica.randperm else": (
            "seeded_randperm"
        ),
    },
    "mica::data": {
        "pairs (x, y) in Python": "Batch Example",
        "keyword arguments of a transform's call": "RandomStream",
        "the inside of read_csv": "CsvFormat CsvTable parse_csv shown",
    },
    "mica::io": {
        "Python has files of its own": (
            "ByteSpan File Mapping read_bytes read_file write_file_atomically"
        ),
        "decode_image tells them apart": "decode_jpeg decode_png",
        "the Trainer writes it where `out` is given": "Report report_page write_report",
        "the inside of load_safetensors": (
            "SafetensorsEntry SafetensorsHeader parse_safetensors_header safetensors_name"
        ),
    },
    "mica::nn": {
        "how layers are made in C++": (
            "CallWatcher ChannelNorm ConvLayer FixedString Handle Initializer ListOfModules Loss "
            "NamedModules NamedTensors OpLayer PadLayer StateDict describe dims_of draw_in_order "
            "exchange_call_watcher field_texts text_of"
        ),
    },
    "mica::nn::init": {
        "words in Python": "FanMode Nonlinearity",
        "a tuple in Python": "Fans",
        "initialisers of C++ layers; Python calls constant_ and kaiming_uniform_": (
            "constant fan_in_uniform"
        ),
    },
    "mica::optim": {"a dictionary in Python": "ParameterGroup"},
    "mica::train": {"any callable in Python": "Loss"},
}

# Python names that C++ has under another or not at all, with the reason.
PYTHON_ONLY = {
    "mica": {
        "PyTorch's names for what C++ calls otherwise": (
            "ValuesIndices amax amin as_tensor bitwise_left_shift bitwise_right_shift cat "
            "channels_last contiguous_format enable_grad is_grad_enabled memory_format no_grad "
            "promote_types rand rand_like randn randn_like take_along_dim unbind"
        ),
        "dtypes and devices, enumerations in C++": (
            "bfloat16 bool device devices dtype float16 float32 float64 int32 int64 uint8"
        ),
        "NumPy and DLPack": "from_dlpack from_numpy",
        "the array API's names": (
            "asarray broadcast_tensors broadcast_to can_cast finfo iinfo result_type"
        ),
    },
    "mica.nn.functional": {"PyTorch's names": "interpolate logsigmoid unfold"},
    "mica.autograd": {
        "PyTorch's names": (
            "Function FunctionCtx enable_grad is_anomaly_enabled is_grad_enabled no_grad"
        ),
    },
    "mica.cuda": {
        "PyTorch's names": (
            "device_count get_device_name get_device_properties is_available stream "
            "unavailable_reason"
        ),
    },
    "mica.nn": {
        "members of a C++ class are parameters themselves": (
            "Parameter ParameterDict ParameterList"
        ),
    },
    "mica.nn.init": {"PyTorch's name": "calculate_gain"},
    "mica.data": {"PyTorch's name": "DataLoader", "one line for a small loop": "Batches batches"},
}
