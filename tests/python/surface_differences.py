"""Where the C++ and the Python names differ on purpose, and why.

test_surface.py fails on a difference that is not here, and on a line here that is none any more.
"""

OPTIMIZERS = [
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "Lion",
    "Muon",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
]

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
        "Autocast": "autocast",
        "autocast_mode": "is_autocast_enabled",
        "Compiled": "CompiledFunction",
        "CustomFunction": "autograd.Function",
        "DeviceProperties": "cuda.get_device_properties",
        "default_low": "get_autocast_dtype",
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
    "mica::data": {
        "Loader": "data.DataLoader",
        "Epoch": "data.DataLoader.epoch",
        "chain": "data.ChainDataset",
        "concat": "data.ConcatDataset",
    },
    "mica::io": {"EpochResult": "train.EpochResult"},
    "mica::train": {
        "accuracy_metric": "train.Accuracy",
        "bits_per_character_metric": "train.BitsPerCharacter",
        "confusion_counts": "train.confusion_matrix",
        "mean_absolute_error_metric": "train.MeanAbsoluteError",
        "mean_iou_metric": "train.MeanIoU",
        "mean_squared_error_metric": "train.MeanSquaredError",
        "perplexity_metric": "train.Perplexity",
        "r2_metric": "train.R2Score",
        "root_mean_squared_error_metric": "train.RootMeanSquaredError",
        "top_k_metric": "train.TopKAccuracy",
    },
    "mica::nn": {"to_string": "nn.Module.__repr__"},
    "mica::nn::function": {
        "constant_pad": "nn.functional.pad",
        "flatten": "flatten",
        "hinge_embedding": "nn.functional.hinge_embedding_loss",
        "identity": "nn.Identity",
        "softmax2d": "nn.Softmax2d",
        "unflatten": "nn.Unflatten",
        "upsample_bilinear": "nn.UpsamplingBilinear2d",
        "upsample_nearest": "nn.UpsamplingNearest2d",
    },
    "mica::nn::init": {"gain": "nn.init.calculate_gain"},
    "mica::onnx": {"export_model": "onnx.export"},
}

# C++ names that Python has not, with the reason.
CPP_ONLY = {
    "mica::linalg": {"words in Python: mode='reduced'": "LstsqDriver MatrixNorm QrMode Uplo"},
    "mica::fft": {"a word, and an integer or None, in Python": "Norm Size"},
    "mica": {
        "words in Python: mode='reflect'": (
            "GeluForm GridMode GridPadding MeshIndexing PadMode SparseLayout UpsampleMode"
        ),
        "the inside of compile": "FirstCompiled",
        "calls of Python take turns": "max_concurrent_runs set_max_concurrent_runs",
        "parts of operators of complex numbers": "as_pairs by_parts complex_abs truth_of",
        "tuples and lists in Python": "DTypeConstant DTypeOf Scale Tensors Unique dtype_of scalar",
        "operators that compiled functions use where they fit": (
            "StepCount clip_by_norm clip_by_value conv2d_pool scale_tensors schedule_lr upsample2d "
            "sum_to"
        ),
        "the inside of autocast": (
            "AutocastMode ComputedIn OwnCasts autocast_inputs autocasts enter_autocast "
            "leave_autocast with_low"
        ),
        "mica.passes() has their names": "Pass",
        "Python's own: x[1:, None, ...]": (
            "Ellipsis EllipsisIndex IndexedTensor None NoneIndex Slice SliceBound TensorIndex"
        ),
        "NumPy shares memory and elements": "Accessor Deleter from_blob",
        "tensor(values) reads lists": "tensor_from_values",
        "warnings in Python": "LogCallback LogLevel log_message set_log_callback",
        "__version__ in Python": "version",
        "empty() by shape and dtype": "empty_from_spec",
        "the inside of compiled functions": ("CompiledCall Graph OpDef Plan ResultForm"),
        "the inside of tensors, devices and the tape": (
            "AutogradMeta Draw DrawScope EventState FunctionBackward "
            "FunctionNode GradHook GradHooks GradNode GradView GradWatcher StreamState "
            "adopt_num_threads check_gradients check_value current_grad_watcher "
            "exchange_grad_watcher names_of not_finite rng_take "
            "settings_changed settings_stamp to_rate_curves to_tensor use_one_thread "
            "view_of"
        ),
        "Tensor.pin_memory makes pinned tensors": "empty_pinned",
        "one layer in one direction; lstm, gru and the like are made of them": (
            "RecurrentMode RecurrentResult RecurrentWeights gates_of recurrent recurrent_cell"
        ),
        "DataLoader(shuffle=seed) uses it; mica.manual_seed with mica.randperm else": (
            "seeded_randperm"
        ),
    },
    "mica::data": {
        "tuples, dicts and the like in Python": "Batch Example Mixed",
        "keyword arguments of a transform's call": "RandomStream",
        "the inside of read_csv": "CsvFormat CsvTable parse_csv shown",
        "classes of samplers in Python, with PyTorch's names": (
            "batch_sampler distributed_sampler random_sampler subset_sampler weighted_sampler"
        ),
        "any callable in Python: collate_fn": "Collate collated",
        "IterableDataset and what it iterates with": "Stream StreamPart StreamReader",
        "the inside of loaders": "BatchWalk LoaderState",
        "a pair (rank, ranks) in Python": "Shard",
    },
    "mica::io": {
        "what a file would hold, as the bytes": "safetensors_bytes",
        "Python has files of its own": ("ByteSpan File read_bytes read_file write_file_atomically"),
        "dictionaries in Python": "Measurements measured numbers_of",
        "decode_image tells them apart": "decode_jpeg decode_png",
        "Python's own dicts, lists and numbers": "Tree",
        "the Trainer writes it where `out` is given": "Report report_page write_report",
        "the inside of load_safetensors": (
            "SafetensorsEntry SafetensorsHeader parse_safetensors_header safetensors_header_end"
        ),
    },
    "mica::models": {
        "an embedding, an LSTM and a linear layer in Python": "CharLm",
        "functions in Python: gpt2(…), llama(…), bert(…)": "Bert GPT2 Llama",
        "words of C++; Python gives the sizes themselves": "bert_options gpt2_options",
        "the inside of generation": "GPT2Cache",
    },
    "mica::text": {
        "the inside of tokenizers": "BpeTraining TokenizerState",
        "Python gives all tokens at once": "AppendTokens",
    },
    "mica::nn": {
        "a class with a forward in Python": "Lambda",
        "a tuple in Python": "LstmState",
        "keyword arguments in Python": "SequenceMasks",
        "a word in Python: nonlinearity='relu'": "Nonlinearity",
        "a word in Python: padding_side='left'": "PaddingSide",
        "Python's PackedSequence checks its parts": "packed_sequence",
        "the inside of layers that are given packed sequences": (
            "lengths_in_order packed_like padded_in_order"
        ),
        "the inside of empty handles": "raise_empty_handle",
        "any callable in Python": "ForwardHook ForwardPreHook",
        "a word in Python: mode='row'": "DepthMode names_of",
        "another overload of its layer": "ConvBnAct2dParts",
        "how layers are made in C++": (
            "Buffer CallWatcher ChannelNorm ConvLayer FixedString ForwardCall ForwardHooks "
            "ForwardSignature Handle Initializer ListOfModules Loss MadeFor Member Members "
            "MaxPoolLayer NamedModules NamedTensors OpLayer PadLayer WithForward call_forward "
            "check_call_depth default_activation describe dims_of draw_in_order "
            "exchange_call_watcher field_texts "
            "inputs_of text_of "
            "wrong_inputs"
        ),
    },
    "mica::nn::function": {"the inside of the layers MaxPool1d, …": "max_pool pooling_of"},
    "mica::nn::init": {
        "words in Python": "FanMode Nonlinearity",
        "a tuple in Python": "Fans",
        "initialisers of C++ layers; Python calls constant_ and kaiming_uniform_": (
            "constant fan_in_uniform"
        ),
    },
    "mica::inference": {
        "a dictionary in Python": "Profile",
        "networks as data, which engines and ONNX files are made of": "network_of",
    },
    "mica::onnx": {"the inside of an imported model": "Cutter Run"},
    "mica::optim": {
        "a dictionary in Python": "ParameterGroup",
        "words in Python": "CyclicMode MuonScale",
        "arguments of optim.lr_scheduler": "MomentumSchedule cyclic_momentum one_cycle_momentum",
        "what Python's optimizers and schedulers share": "OptimizerWith RateWriter",
        "in optim.lr_scheduler": "LRScheduler ReduceLROnPlateau",
    },
    "mica::train": {
        "any callable in Python": "Comparison Loss Split",
        "the inside of evaluate": (
            "Evaluator Parts Task examples_in metrics_for split_batch task_of total_of"
        ),
    },
}

# Python names that C++ has under another or not at all, with the reason.
PYTHON_ONLY = {
    "mica.fft": {"two axes, which C++ names": "fft2 ifft2 irfft2 rfft2"},
    "mica.amp": {
        "mica.autocast, as in PyTorch": "autocast",
        "PyTorch's decorators for functions of Python": "custom_bwd custom_fwd",
    },
    "mica": {
        "PyTorch's names for what C++ calls otherwise": (
            "ValuesIndices amax amin as_tensor autocast bitwise_left_shift bitwise_right_shift cat "
            "channels_last contiguous_format enable_grad get_autocast_dtype is_autocast_enabled "
            "is_grad_enabled memory_format no_grad "
            "promote_types rand_like randn_like take_along_dim"
        ),
        "PyTorch's second names": (
            "absolute argwhere clip concatenate divide fliplr flipud get_num_threads greater "
            "greater_equal inference_mode less less_equal moveaxis multiply negative not_equal "
            "ravel subtract swapdims true_divide"
        ),
        "two functions of C++ at once, or one with arguments of its own": (
            "clamp_max clamp_min randint_like std_mean var_mean"
        ),
        "questions, of a tensor's members in C++": "is_complex is_floating_point is_tensor numel",
        "numbers, from <numbers> and <limits> in C++; None as an index": "e inf nan newaxis pi",
        "dtypes and devices, enumerations in C++": (
            "bfloat16 bool cdouble cfloat complex128 complex64 device devices double dtype float "
            "float16 float32 float64 float8_e4m3fn float8_e5m2 half int long short "
            "int16 int32 int64 int8 uint16 uint32 uint64 uint8"
        ),
        "NumPy and DLPack": "from_dlpack from_numpy",
        "operators of one's own, which C++ defines with mica/op and mica/kernels.h": (
            "load_ops op"
        ),
        "the array API's names": ("asarray broadcast_to can_cast finfo iinfo result_type"),
    },
    "mica.models": {
        "GPT2(options), Llama(options) and Bert(options) in C++": "bert gpt2 llama",
        "members of those in C++": "gpt2_generate llama_generate",
    },
    "mica.nn.functional": {
        "PyTorch's names": "interpolate logsigmoid unfold",
    },
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
        "PyTorch's names for memory_stats() and the like of the first CUDA device": (
            "current_device manual_seed_all max_memory_allocated max_memory_reserved mem_get_info "
            "memory_allocated memory_reserved reset_peak_memory_stats"
        ),
        "mica::cuda::Kernel, Elementwise and Reduction, which C++ constructs": (
            "elementwise kernel reduction"
        ),
    },
    "mica.nn": {
        "members of a C++ class are parameters themselves": ("ParameterDict ParameterList"),
        "made of functions in Python": "MultiLabelMarginLoss TripletMarginWithDistanceLoss",
    },
    "mica.nn.init": {"PyTorch's name": "calculate_gain"},
    "mica.data": {
        "PyTorch's name": "DataLoader",
        "one line for a small loop": "Batches batches",
        "PyTorch's names; data/collate.h and data/sampler.h have functions": (
            "ConcatDataset DistributedSampler RandomSampler SequentialSampler "
            "Subset SubsetRandomSampler WeightedRandomSampler"
        ),
        "PyTorch's names; data/stream.h and data/worker_info.h have them in C++": (
            "ChainDataset IterableDataset WorkerInfo get_worker_info"
        ),
    },
    "mica.onnx": {
        "export is a keyword of C++": "export",
        "an overload of load in C++": "loads",
        "members of what load gives in C++": "input_names output_names",
    },
    "mica.sparse": {"SciPy's matrices": "from_scipy"},
    "mica.train": {
        "accuracy_metric() and the like in C++": (
            "Accuracy BitsPerCharacter MeanAbsoluteError MeanIoU MeanSquaredError Perplexity "
            "R2Score RootMeanSquaredError TopKAccuracy"
        ),
        "confusion_counts() in C++": "confusion_matrix",
    },
}

# Members of classes.

# C++ class: the Python class it is, from mica on, where the names differ.
CLASSES = {
    "CustomFunction": "autograd.Function",
    "Device": "device",
    "FunctionContext": "autograd.FunctionCtx",
    "Loader": "data.DataLoader",
    "Summary::Row": "nn.SummaryRow",
}

# Classes of one name that are different things: the parameters of a layer, and of a function.
NAMESAKES = ("data.BatchSampler", "data.Sampler", "nn.Parameter")

# C++ classes whose values are numbers, tuples or words in Python.
VALUES = ("Dims", "Padding", "Scale2", "Size2", "Size3")

# C++ class: its member: Python's.
MEMBERS_RENAMED = {
    "CholeskyEx": {"l": "L"},
    "Lu": {"l": "L", "p": "P", "u": "U"},
    "LuFactor": {"lu": "LU"},
    "LuFactorEx": {"lu": "LU"},
    "Qr": {"q": "Q", "r": "R"},
    "Svd": {"s": "S", "u": "U", "vh": "Vh"},
    "GradScaler": {"unscale": "unscale_"},
    "Compiled": {"function": "__wrapped__"},
    "Dataset": {"get": "__getitem__", "size": "__len__"},
    "Device": {"kind": "type"},
    "Event": {"elapsed_ms": "elapsed_time"},
    "FunctionContext": {
        "needs": "needs_input_grad",
        "save": "save_for_backward",
        "saved": "saved_tensors",
    },
    "ListOfModules": {"push_back": "append", "size": "__len__"},
    "Loader": {"size": "__len__"},
    "Module": {"at": "get_submodule", "set_requires_grad": "requires_grad_"},
    "ModuleDict": {"contains": "__contains__", "insert": "__setitem__", "size": "__len__"},
    "ModuleImpl": {
        "own_buffers": "named_buffers",
        "own_parameters": "named_parameters",
        "replace_buffer": "__setattr__",
        "replace_module": "__setattr__",
        "replace_parameter": "__setattr__",
        "set_training": "train",
        "unregister": "__delattr__",
    },
    "ModuleListImpl": {"push_back": "append"},
    "Optimizer": {"set_schedule": "schedule"},
    "SparseTensor": {"rank": "ndim", "set_requires_grad": "requires_grad_"},
    "Stream": {"create": "__init__", "wait": "wait_event"},
    "TokenFile": {"size": "__len__"},
    "Tokenizer": {"size": "__len__"},
    "Vocabulary": {"size": "__len__"},
    "Tensor": {
        "offset": "storage_offset",
        "rank": "ndim",
        "set_grad": "grad",
        "set_requires_grad": "requires_grad_",
        "to_vector": "tolist",
        "item_number": "item",
    },
}

# Members of a C++ class, or of any (*), that Python has not, with the reason.
MEMBERS_CPP_ONLY = {
    "*": {
        "what a shared handle of C++ points to": "impl",
        "repr() shows them; keyword arguments make them": "describe options",
        "how layers are made in C++": "kept_as type_name",
    },
    "GradScaler": {"GradScaler.update(new_scale) sets it": "set_scale"},
    "CompiledFunction": {
        "kernels and is_one_launch tell of it": "plan",
        "a call gives what is in it": "call",
        "engines are made ready by it": "prepare",
    },
    "Binding": {"engine.kernels tells of it": "plan"},
    "Callback": {"whether it defines on_step_end": "wants_steps"},
    "Engine": {"engine(…), and what engine.inputs and engine.dump() tell": "network run"},
    "Evaluation": {"evaluation.accuracy, evaluation.metrics": "metric"},
    "Meter": {"what it was made of": "metric"},
    "Device": {
        "device('cpu') and the like": "cpu cuda null",
        "device.type says it": "is_cpu is_cuda is_null",
    },
    "FunctionContext": {"attributes of the context": "get set"},
    "Feed": {"the Trainer asks it": "is_possible whole_batch"},
    "Loader": {
        "what the garbage collector asks": "is_alone",
        "`dataset` is the one or the other": "is_stream stream",
        "of its data set": "class_names",
        "the numbers that its sampler gives": "order",
    },
    "WorkerInfo": {"PyTorch's names: id and num_workers": "count index"},
    "Module": {
        "a Python object knows its class": "as",
        "None in Python": "is_empty",
        "mica.save(net.state_dict(), path) and mica.load": "load save",
    },
    "MaxPoolImpl": {
        "return_indices of the layer's in Python": "call class_type forward_with_indices"
    },
    "ModuleDictImpl": {"forward in Python": "call"},
    "ModuleListImpl": {"forward in Python": "call", "len() in Python": "size"},
    "SequentialImpl": {"forward in Python": "call"},
    "ModuleImpl": {
        "the inside of reset_parameters": "Initial add_initial own_initials",
        "the inside of register_forward_hook": "forward_hooks is_watched make_forward_hooks",
        "the inside of captured scopes": "registered_name",
        "the inside of compile's guards": "bind_buffer note_change",
        "forward in Python": "Tensor call",
        "a Python object knows its class": "class_type",
        "the inside of empty handles": "stands_for_none",
        "whether state_dict() has it": "is_persistent",
        "why net.weight is net.weight": "keep_object visit_objects",
    },
    "Optimizer": {
        "the inside of schedulers": (
            "claim_momenta claim_rates initial_rates momenta rates_writer"
        ),
        "param_groups[group]['lr'] sets it": "set_current_lr",
    },
    "OptimizerWith": {"param_groups sets them": "set_options"},
    "MultiheadAttentionImpl": {
        "forward with need_weights and average_attn_weights": "Weights attend",
        "the inside of transformer layers": "is_plain",
    },
    **{
        f"Transformer{part}Impl": {"forward with is_causal and the like": "run"}
        for part in ("", "Decoder", "DecoderLayer", "Encoder", "EncoderLayer")
    },
    "LSTMImpl": {"forward takes packed sequences too": "forward_packed"},
    "PlainRecurrentImpl": {"forward takes packed sequences too": "forward_packed"},
    "RecurrentCellImpl": {"its class says it": "mode"},
    "RecurrentLayerImpl": {"parameters() in Python": "weights"},
    "Schedule": {"what it is in device memory": "pieces"},
    "SparseTensor": {"None in Python": "defined"},
    "Stream": {"the inside of streams": "defined state"},
    "Summary": {"nn.SummaryRow": "Row"},
    "Tensor": {
        "None in Python": "defined",
        "the inside of tensors": "data_as is_traced spec storage",
        "x[...] and NumPy in Python": "accessor index",
        "Tensor.to in Python": "cast",
    },
}

# Members of a Python class that C++ has under another name or not at all, with the reason.
MEMBERS_PYTHON_ONLY = {
    **{
        f"nn.Transformer{kind}Layer": {"an option that C++ keeps to itself": "norm_first"}
        for kind in ("Encoder", "Decoder")
    },
    **{
        f"nn.{layer}": {"PyTorch's programs call it": "flatten_parameters"}
        for layer in ("GRU", "LSTM", "RNN")
    },
    "amp.GradScaler": {
        "of its options": "get_backoff_factor get_growth_factor get_growth_interval"
    },
    "nn.utils.rnn.PackedSequence": {"as PyTorch's moves": "cpu cuda to"},
    "inference.Engine": {"of its network": "dump inputs outputs"},
    "CompiledFunction": {"of its plan": "is_one_launch kernels memory"},
    "SparseTensor": {"PyTorch's name for t()": "T", "SciPy's constructors take it": "numpy"},
    "Tensor": {
        "PyTorch's names for what C++ calls otherwise": (
            "H T amax amin bitwise_left_shift bitwise_right_shift broadcast_to data_ptr dim "
            "element_size expand_as is_cuda is_floating_point mH mT nelement "
            "register_hook register_post_accumulate_grad_hook reshape_as retain_grad stride "
            "take_along_dim type_as view_as"
        ),
        "one name for each cast, which C++ tells by an argument": (
            "bfloat16 bool byte char cpu cuda double float half int long short to_device"
        ),
        "with the dtype and device of this one": "new_empty new_full new_ones new_tensor new_zeros",
        "NumPy's names": "itemsize nbytes numpy",
        "PyTorch's second names": (
            "absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh argwhere clip divide "
            "fix fliplr flipud ger greater greater_equal less less_equal moveaxis multiply "
            "ndimension negative not_equal ravel subtract swapdims true_divide"
        ),
        "clamp with one bound": "clamp_max clamp_min",
        "answers that a device or a dtype gives": "get_device is_complex is_cpu",
        "the inside of the tape in C++": "grad_fn",
        "in place; C++ writes `copy_(x, mul(x, y))`": (
            "bernoulli_ detach_ normal_ random_ uniform_"
        ),
    },
    "autograd.Function": {"defined by one's own class": "apply backward forward"},
    "cuda.Stream": {"PyTorch's name for CUDA's handle": "cuda_stream"},
    "data.DataLoader": {"of its options": "batch_size drop_last"},
    "data.WorkerInfo": {"PyTorch's names for index and count": "dataset id num_workers"},
    "nn.Module": {
        "PyTorch's names": (
            "add_module bfloat16 buffers cpu cuda double extra_repr float get_buffer get_parameter "
            "get_parameter_or_buffer half modules named_children"
        ),
        "call in C++": "forward",
    },
    "nn.Transformer": {
        "PyTorch's name for square_subsequent_mask": "generate_square_subsequent_mask"
    },
    "text.Tokenizer": {"encode of each": "encode_batch"},
    **{
        f"nn.Dropout{axes}": {"results are tensors of their own": "inplace"}
        for axes in ("", "1d", "2d", "3d")
    },
    "nn.ModuleDict": {"as a dictionary has": "clear items keys pop update values"},
    "nn.ModuleList": {"as a list has": "extend insert"},
    "nn.Sequential": {"as a list has": "extend insert", "call in C++": "forward"},
    **{
        f"optim.{name}": {"parameters(group) and options(group) in C++": "param_groups"}
        for name in OPTIMIZERS
    },
    "optim.Optimizer": {
        "parameters(group) and options(group) in C++": "param_groups",
        "of OptimizerWith in C++": "add_param_group",
    },
    "train.Trainer": {"where Ctrl-C ends fit(), which then raises": "outcome"},
}

# Parameters of functions, constructors and methods; options count as parameters.

# C++ name: PyTorch's, of which a Python function has one where it has not the C++ name.
PARAMETER_WORDS = {
    "a": "input A",
    "axes": "dim dims",
    "axis": "dim",
    "b": "other B",
    "classes": "num_classes",
    "cotangents": "grad_tensors grad_outputs",
    "f": "function",
    "features": "num_features",
    "form": "approximate",
    "groups": "num_groups",
    "high": "b max max_val",
    "in": "in_features in_channels",
    "index": "input",
    "kernel": "kernel_size",
    "low": "a min min_val",
    "out": "out_features out_channels",
    "output": "output_size",
    "p": "norm_type",
    "parameters": "params num_parameters",
    "shape": "size normalized_shape",
    "slope": "negative_slope a",
    "src": "source",
    "state": "state_dict",
    "stop": "end",
    "t": "tensor",
    "value": "fill_value val",
    "x": "input",
}

_STACK = {
    "bias": "has_biases",
    "h": "hx",
    "layers": "num_layers",
    "training": "train",
    "weights": "params",
}
_LAYER = {"hidden": "hidden_size", "in": "input_size", "layers": "num_layers"}

_BLOCK = {
    "eps": "layer_norm_eps",
    "heads": "nhead",
    "hidden": "dim_feedforward",
    "width": "d_model",
}
_DECODED = {
    "mask": "tgt_mask",
    "memory_padding": "memory_key_padding_mask",
    "padding": "tgt_key_padding_mask",
    "x": "tgt",
}

# The same for one Python function.
PARAMETERS_RENAMED = {
    "cholesky_inverse": {"l": "L"},
    "cholesky_solve": {"l": "L"},
    "linalg.diagonal": {"axis1": "dim1", "axis2": "dim2"},
    "linalg.eigh": {"uplo": "UPLO"},
    "linalg.eigvalsh": {"uplo": "UPLO"},
    "linalg.lu_solve": {"lu": "LU"},
    "linalg.vander": {"n": "N"},
    "lu_unpack": {"lu_data": "LU_data", "lu_pivots": "LU_pivots"},
    "fft.fftn": {"sizes": "s"},
    "fft.ifftn": {"sizes": "s"},
    "fft.irfftn": {"sizes": "s"},
    "fft.rfftn": {"sizes": "s"},
    "polar": {"size": "abs"},
    "models.vit": {
        "heads": "num_heads",
        "hidden": "mlp_dim",
        "image": "image_size",
        "layers": "num_layers",
        "patch": "patch_size",
        "width": "hidden_dim",
    },
    "nn.MultiheadAttention": {
        "heads": "num_heads",
        "key_width": "kdim",
        "value_width": "vdim",
        "width": "embed_dim",
    },
    "nn.MultiheadAttention.forward": {"mask": "attn_mask", "padding": "key_padding_mask"},
    "nn.SwiGLU": {"hidden": "hidden_dim", "width": "dim"},
    "nn.Transformer": {
        **_BLOCK,
        "decoder_layers": "num_decoder_layers",
        "encoder_layers": "num_encoder_layers",
    },
    "nn.Transformer.forward": {
        "memory_padding": "memory_key_padding_mask",
        "source": "src",
        "source_mask": "src_mask",
        "source_padding": "src_key_padding_mask",
        "target": "tgt",
        "target_mask": "tgt_mask",
        "target_padding": "tgt_key_padding_mask",
    },
    "nn.TransformerDecoder": {"layers": "num_layers"},
    "nn.TransformerDecoder.forward": _DECODED,
    "nn.TransformerDecoderLayer": _BLOCK,
    "nn.TransformerDecoderLayer.forward": _DECODED,
    "nn.TransformerEncoder": {"layers": "num_layers"},
    "nn.TransformerEncoder.forward": {"padding": "src_key_padding_mask", "x": "src"},
    "nn.TransformerEncoderLayer": _BLOCK,
    "nn.TransformerEncoderLayer.forward": {
        "mask": "src_mask",
        "padding": "src_key_padding_mask",
        "x": "src",
    },
    "nn.square_subsequent_mask": {"n": "size"},
    "text.write_token_file": {"vocabulary": "vocab_size"},
    **{name: _STACK for name in ("gru", "lstm", "rnn_relu", "rnn_tanh")},
    **{f"nn.{name}": _LAYER for name in ("GRU", "RNN")},
    "nn.LSTM": {**_LAYER, "projection": "proj_size"},
    **{
        f"nn.{name}{end}.forward": {"state": "hx"}
        for name in ("GRU", "LSTM", "RNN")
        for end in ("", "Cell")
    },
    "nn.utils.rnn.unpad_sequence": {"padded": "padded_sequences"},
    "nn.utils.rnn.unpack_sequence": {"sequence": "packed_sequences"},
    "amp.GradScaler.scale": {"loss": "outputs"},
    **{f"optim.{name}.add_param_group": {"group": "param_group"} for name in OPTIMIZERS},
    "io.load": {"path": "f"},
    "io.save": {"path": "f", "tree": "obj"},
    "optim.LBFGS": {"strong_wolfe": "line_search_fn"},
    "optim.Muon": {"scale": "adjust_lr_fn"},
    "Tensor.backward": {"cotangent": "gradient"},
    "Tensor.contiguous": {"format": "memory_format"},
    "atan2": {"y": "input", "x": "other"},
    "autograd.backward": {"outputs": "tensors"},
    "autograd.checkpoint": {"inputs": "arguments"},
    "cuda.Stream": {"state": "device"},
    "get_autocast_dtype": {"device": "device_type"},
    "data.ChainDataset": {"streams": "datasets"},
    "models.resnet": {"dilate": "replace_stride_with_dilation"},
    "nn.LayerNorm2d": {"affine": "elementwise_affine"},
    "nn.SqueezeExcitation": {"channels": "input_channels", "squeeze": "squeeze_channels"},
    "data.DataLoader": {
        "batch": "batch_size",
        "prefetch": "prefetch_factor",
        "workers": "num_workers",
    },
    "addcdiv": {"a": "tensor1", "b": "tensor2"},
    "addcmul": {"a": "tensor1", "b": "tensor2"},
    "addmm": {"a": "mat1", "b": "mat2"},
    "baddbmm": {"a": "batch1", "b": "batch2"},
    "bmm": {"b": "mat2"},
    "diagonal": {"axis1": "dim1", "axis2": "dim2"},
    "dot": {"b": "tensor"},
    "eye": {"rows": "n", "columns": "m"},
    "flatten": {"start": "start_dim", "end": "end_dim"},
    "from_numpy": {"data": "array"},
    "io.decode_image": {"bytes": "data"},
    "lerp": {"b": "end"},
    "meshgrid": {"axes": "tensors"},
    "mm": {"b": "mat2"},
    "movedim": {"from": "source", "to": "destination"},
    "multinomial": {"weights": "input", "samples": "num_samples"},
    "mv": {"b": "vec"},
    "nn.Bilinear": {"in1": "in1_features", "in2": "in2_features"},
    "nn.Bilinear.forward": {"a": "input1", "b": "input2"},
    "nn.Embedding": {"rows": "num_embeddings", "dim": "embedding_dim"},
    "nn.Flatten": {"start": "start_dim", "end": "end_dim"},
    "nn.GroupNorm": {"channels": "num_channels"},
    "nn.LayerNorm": {"affine": "elementwise_affine"},
    "nn.Module.register_buffer": {"value": "tensor"},
    "nn.Module.register_parameter": {"value": "param"},
    "nn.Module.train": {"on": "mode"},
    "nn.RMSNorm": {"affine": "elementwise_affine"},
    "nn.Unflatten": {"sizes": "unflattened_size"},
    "nn.Upsample": {"scale": "scale_factor"},
    "nn.UpsamplingBilinear2d": {"scale": "scale_factor"},
    "nn.UpsamplingNearest2d": {"scale": "scale_factor"},
    "nn.functional.cosine_embedding_loss": {"a": "input1", "b": "input2"},
    "nn.functional.cosine_similarity": {"a": "x1", "b": "x2"},
    "nn.functional.pairwise_distance": {"a": "x1", "b": "x2"},
    "nn.functional.scaled_dot_product_attention": {
        "causal": "is_causal",
        "dropout": "dropout_p",
        "grouped": "enable_gqa",
        "mask": "attn_mask",
    },
    "nn.functional.packed_attention": {
        "causal": "is_causal",
        "dropout": "dropout_p",
        "heads": "num_heads",
        "kv_heads": "num_kv_heads",
        "mask": "attn_mask",
    },
    "nn.functional.threshold": {"limit": "threshold"},
    "nn.functional.cross_entropy": {"logits": "input"},
    "nn.functional.fold": {"columns": "input", "size": "output_size"},
    "nn.functional.grid_sample": {"padding": "padding_mode"},
    "nn.functional.upsample": {"scale": "scale_factor"},
    "nn.functional.margin_ranking_loss": {"a": "input1", "b": "input2"},
    "nn.functional.one_hot": {"index": "tensor"},
    "nn.functional.pad": {"before": "pad"},
    "nn.functional.pixel_shuffle": {"r": "upscale_factor"},
    "nn.functional.pixel_unshuffle": {"r": "downscale_factor"},
    "nn.init.calculate_gain": {"slope": "param"},
    "nn.summary": {"input": "input_size"},
    "outer": {"b": "vec2"},
    "pow": {"b": "exponent"},
    "searchsorted": {"sorted": "sorted_sequence", "values": "input"},
    "split": {"x": "tensor", "size": "split_size_or_sections"},
    "swapaxes": {"a": "axis0", "b": "axis1"},
    "take_along_dim": {"index": "indices"},
    "tensor": {"values": "data"},
    "tensordot": {"n": "dims"},
    **{f"atleast_{n}d": {"x": "tensors"} for n in (1, 2, 3)},
    "tile": {"repeats": "dims"},
    "train.accuracy": {"dataset": "data"},
    "transpose": {"a": "dim0", "b": "dim1"},
}

# Parameters of any Python function that have no effect, with the reason.
WITHOUT_EFFECT = {"inplace": "results are tensors of their own; a compiled step plans its memory"}

# Layers whose parameters can be put on a device, or made of a dtype, as they are made.
PLACED = [
    "MultiheadAttention",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Embedding",
    "GRU",
    "GRUCell",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LSTM",
    "LSTMCell",
    "LayerNorm",
    "LayerNorm2d",
    "Linear",
    "PReLU",
    "RMSNorm",
    "RNN",
    "RNNCell",
]

# Parameters that Python has not, with the reason.
PARAMETERS_CPP_ONLY = {
    "a module or a function is `net` in Python, and has the names": (
        "inference.optimize.function inference.optimize.input_names inference.optimize.module "
        "inference.optimize.name_of"
    ),
    "mica.onnx.loads": "onnx.load.bytes onnx.load.name",
    "of the layer that Python copies": (
        "nn.TransformerDecoder.batch_first nn.TransformerDecoder.bias "
        "nn.TransformerDecoder.dropout nn.TransformerDecoder.eps "
        "nn.TransformerDecoder.heads nn.TransformerDecoder.hidden "
        "nn.TransformerDecoder.norm_first nn.TransformerDecoder.width "
        "nn.TransformerEncoder.batch_first nn.TransformerEncoder.bias "
        "nn.TransformerEncoder.dropout nn.TransformerEncoder.eps "
        "nn.TransformerEncoder.heads nn.TransformerEncoder.hidden "
        "nn.TransformerEncoder.norm_first nn.TransformerEncoder.width"
    ),
    "how many are read": "text.TokenFile.read.to",
    "keyword arguments in Python": "text.Tokenizer.train_bpe.options",
    "Python gives all tokens at once": "text.write_token_file.fill",
    "the inside of tensors, which tensor() and empty() make": "Tensor.impl",
    "only an LSTM projects": "nn.GRU.projection nn.RNN.projection",
    "a tuple (h, c) in Python": "lstm.c",
    "its step is not compiled": "optim.LBFGS.step.where",
    "the tensor itself": (
        "Tensor.add_.destination Tensor.contiguous.x Tensor.copy_.destination "
        "Tensor.fill_.x Tensor.is_pinned.tensor Tensor.pin_memory.x Tensor.to.x "
        "Tensor.to_sparse.input Tensor.to_sparse_csc.input Tensor.to_sparse_csr.input"
    ),
    "another overload of C++ under the same Python name": (
        "Tensor.add_.source Tensor.index_put_.key Tensor.index_put_.value "
        "Tensor.index_put_.values Tensor.view.shape io.load_safetensors.file "
        "io.load_safetensors.name normal.deviation "
        "CompiledFunction.body arange.n autograd.checkpoint.input "
        "nn.LayerNorm.size nn.LayerNorm2d.channels nn.RMSNorm.size nn.functional.pad.after "
        "split.sizes tensordot.axes_a tensordot.axes_b"
    ),
    "probabilities are a tensor: bernoulli(full(shape, p))": (
        "bernoulli.device bernoulli.dtype bernoulli.p bernoulli.shape"
    ),
    "hardtanh and relu6 say it": "clamp.open",
    "num_kv_heads says it, and there are as many keys as queries": (
        "nn.functional.packed_attention.bottom_right nn.functional.packed_attention.grouped"
    ),
    "what a shared handle of C++ points to": "data.Dataset.impl nn.Module.impl",
    "data.TensorDataset(x, y)": "data.Dataset.class_names data.Dataset.tensors",
    "`dataset` may be one": "data.DataLoader.stream",
    "`lengths` may be fractions, and generator is the seed": (
        "data.random_split.fractions data.random_split.seed"
    ),
    "device('cuda:1')": "device.kind",
    "dictionaries in a list": (
        "optim.ASGD.groups optim.Adadelta.groups optim.Adafactor.groups optim.Adagrad.groups "
        "optim.Adam.groups optim.AdamW.groups "
        "optim.Adamax.groups optim.Lion.groups optim.Muon.groups optim.NAdam.groups "
        "optim.RAdam.groups optim.RMSprop.groups optim.Rprop.groups optim.SGD.groups"
    ),
    "param_groups has them": "optim.Optimizer.parameters.group",
    "nn.functional.interpolate takes it": "nn.Upsample.antialias nn.functional.upsample.antialias",
    "gradgradcheck has it set": (
        "autograd.gradcheck.second_order autograd.gradgradcheck.second_order"
    ),
    "messages name the Python function": "io.decode_image.name io.set_random_state.name",
    "the inside of tensors": "empty.spec",
    "members of one's own class": (
        "train.Metric.compute train.Metric.higher_is_better train.Metric.is_share "
        "train.Metric.name train.Metric.update"
    ),
    "always looked for": "train.evaluate.mistakes",
    "nested lists have a shape": "tensor.shape",
    "an array has them": "from_numpy.device from_numpy.dtype from_numpy.shape",
    "x * (high - low) + low of what it gives": (
        "rand_like.high rand_like.low randn_like.mean randn_like.std"
    ),
    "total_norm is what clip_grad_norm_ returns": "optim.clip_grad_norm_.tensors",
}

# Parameters that C++ has not, with the reason.
PARAMETERS_PYTHON_ONLY = {
    "PyTorch's names; values of the dtype, set_requires_grad() and to(device) in C++": (
        "sparse_coo_tensor.device sparse_coo_tensor.dtype sparse_coo_tensor.requires_grad "
        "sparse_csc_tensor.device sparse_csc_tensor.dtype sparse_csc_tensor.requires_grad "
        "sparse_csr_tensor.device sparse_csr_tensor.dtype sparse_csr_tensor.requires_grad"
    ),
    "PyTorch's words for how a step is computed": " ".join(
        f"optim.{name}.words" for name in OPTIMIZERS if name != "LBFGS"
    ),
    "which of LAPACK's or cuSOLVER's drivers PyTorch calls; it changes nothing here": (
        "linalg.svd.driver linalg.svdvals.driver"
    ),
    "PyTorch's older words for atol and rtol": "linalg.matrix_rank.tol linalg.pinv.rcond",
    "`module` or `function` in C++": "inference.optimize.net",
    "a part of C++'s QuantizeOptions": "inference.optimize.calibrate",
    "refused": (
        "nn.MultiheadAttention.add_bias_kv nn.MultiheadAttention.add_zero_attn "
        "nn.Embedding.scale_grad_by_freq nn.Module.load_state_dict.assign"
    ),
    "PyTorch's words, taken without effect": (
        "grad.only_inputs nn.Embedding.sparse optim.clip_grad_norm_.foreach"
    ),
    "what is done with undefined gradients": "grad.allow_unused grad.materialize_grads",
    "looks at the norm on the host": "optim.clip_grad_norm_.error_if_nonfinite",
    "a text, or a kind of device": "device.type",
    "attend() and run() in C++": (
        "nn.MultiheadAttention.forward.average_attn_weights "
        "nn.MultiheadAttention.forward.is_causal nn.MultiheadAttention.forward.need_weights "
        "nn.Transformer.forward.memory_is_causal nn.Transformer.forward.src_is_causal "
        "nn.Transformer.forward.tgt_is_causal nn.TransformerDecoder.forward.memory_is_causal "
        "nn.TransformerDecoder.forward.tgt_is_causal "
        "nn.TransformerDecoderLayer.forward.memory_is_causal "
        "nn.TransformerDecoderLayer.forward.tgt_is_causal nn.TransformerEncoder.forward.is_causal "
        "nn.TransformerEncoderLayer.forward.is_causal"
    ),
    "the layer that Python copies": (
        "nn.TransformerDecoder.decoder_layer nn.TransformerEncoder.encoder_layer"
    ),
    "BpeTraining in C++": (
        "text.Tokenizer.train_bpe.min_frequency text.Tokenizer.train_bpe.special_tokens "
        "text.Tokenizer.train_bpe.vocab_size"
    ),
    "a span in C++": "text.TokenFile.read.count",
    "options of C++'s cells, whose handles are made of any arguments": (
        "nn.GRUCell.bias nn.GRUCell.hidden_size nn.GRUCell.input_size nn.LSTMCell.bias "
        "nn.LSTMCell.hidden_size nn.LSTMCell.input_size nn.RNNCell.bias nn.RNNCell.hidden_size "
        "nn.RNNCell.input_size nn.RNNCell.nonlinearity"
    ),
    "any number of them in Python": (
        "Tensor.index_put_.args Tensor.index_put_.kwargs Tensor.view.args"
    ),
    "another method in C++: is_channels_last() of the spec": ("Tensor.is_contiguous.memory_format"),
    "modules among the options of C++": (
        "nn.Transformer.activation nn.TransformerDecoderLayer.activation "
        "nn.TransformerEncoderLayer.activation "
        "nn.SqueezeExcitation.activation nn.SqueezeExcitation.scale_activation"
    ),
    "set_scale() and autocast_mode() in C++": (
        "amp.GradScaler.update.new_scale is_autocast_enabled.device_type"
    ),
    "set_requires_grad() of the result": (
        "empty.requires_grad empty_like.requires_grad full.requires_grad full_like.requires_grad "
        "ones.requires_grad ones_like.requires_grad rand.requires_grad randn.requires_grad "
        "tensor.requires_grad zeros.requires_grad zeros_like.requires_grad"
    ),
    "C++ makes them with full(shape, value, options)": (
        "empty_like.device empty_like.dtype full_like.device full_like.dtype ones_like.device "
        "ones_like.dtype zeros_like.device zeros_like.dtype"
    ),
    "an optimizer in Python is made of them": (
        "optim.Optimizer.defaults optim.Optimizer.params optim.Optimizer.state"
    ),
    "several overloads of C++ in one": (
        "Tensor.to.args Tensor.to.copy Tensor.to.memory_format nn.Module.to.args "
        "nn.Module.to.memory_format nn.Module.to.non_blocking"
    ),
    "net.to(device) and net.to(dtype) in C++": " ".join(
        f"nn.{layer}.{word}" for layer in PLACED for word in ("device", "dtype")
    ),
    "tensor(values) and empty(shape) in C++": "Tensor.args Tensor.device",
    "mul(other, alpha) and the like in C++": (
        "Tensor.add_.alpha Tensor.div_.rounding_mode Tensor.sub_.alpha"
    ),
    "contiguous(clone(x), format) in C++": "Tensor.clone.memory_format",
    "taken with one value alone": (
        "nn.ConvTranspose1d.padding_mode nn.ConvTranspose2d.padding_mode "
        "nn.ConvTranspose3d.padding_mode nn.AdaptiveMaxPool1d.return_indices "
        "nn.AdaptiveMaxPool2d.return_indices nn.AdaptiveMaxPool3d.return_indices "
        "optim.Adam.decoupled_weight_decay"
    ),
    "a layer's single value has no name in C++": " ".join(
        f"nn.AdaptiveMaxPool{n}d.output_size" for n in (1, 2, 3)
    ),
    "max_pool1d_with_indices and the like in C++": " ".join(
        f"nn.functional.{kind}max_pool{n}d{ending}.return_indices"
        for kind in ("", "adaptive_")
        for n in (1, 2, 3)
        for ending in ("", "_with_indices")
    ),
    "the free function backward has them": (
        "Tensor.backward.create_graph Tensor.backward.retain_graph"
    ),
    "maximum and minimum by PyTorch's other names": "max.other min.other",
    "parameters without names in C++, which does nothing with them": (
        "train.Callback.on_epoch_end.result train.Callback.on_evaluation_end.evaluation "
        "train.Callback.on_evaluation_end.step train.Callback.on_fit_end.outcome "
        "train.Callback.on_log.record train.Callback.on_step_end.step"
    ),
    "C++ always gives all three": "unique.return_counts unique.return_inverse",
    "own_parameters() and own_buffers() of C++ are without": (
        "nn.Module.named_buffers.recurse nn.Module.named_parameters.recurse "
        "nn.Module.parameters.recurse"
    ),
    "PyTorch's": (
        "nn.Transformer.custom_decoder nn.Transformer.custom_encoder "
        "nn.TransformerEncoder.enable_nested_tensor nn.TransformerEncoder.mask_check "
        "nn.Module.named_buffers.prefix nn.Module.named_buffers.remove_duplicate "
        "nn.Module.named_modules.memo nn.Module.named_modules.prefix "
        "nn.Module.named_modules.remove_duplicate nn.Module.named_parameters.prefix "
        "nn.Module.named_parameters.remove_duplicate "
        "nn.Module.register_forward_hook.with_kwargs "
        "nn.Module.register_forward_pre_hook.with_kwargs nn.Module.state_dict.destination "
        "nn.Module.state_dict.keep_vars nn.Module.state_dict.prefix "
        "nn.Module.zero_grad.set_to_none "
        "bernoulli.input data.DataLoader.collate_fn "
        "data.DataLoader.generator data.DataLoader.multiprocessing_context "
        "data.DataLoader.persistent_workers data.DataLoader.pin_memory "
        "data.DataLoader.timeout data.DataLoader.worker_init_fn data.random_split.generator "
        "io.load.map_location io.load.weights_only "
        "nn.Module.load_state_dict.strict optim.Optimizer.step.closure "
        "optim.Optimizer.zero_grad.set_to_none train.accuracy.labels"
    ),
}
