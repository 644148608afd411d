"""torch.version."""

from torch import __version__

cuda = None
hip = None
debug = False
git_version = "mica"
