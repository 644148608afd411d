"""Networks made in C++."""

from mica._mica import models as _models

lenet = _models.lenet
