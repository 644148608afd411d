from torch.fx import GraphModule

_copy_attr = None
