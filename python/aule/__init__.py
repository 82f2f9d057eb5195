"""aule: attention kernels from scripts.

    import aule

    f = aule.compile("mha.attn")              # or the script's text, or aule.load("mha.so")
    o = f(q, k, v, bias=bias, window=128)     # inputs and parameters by name
    results = f.forward(q, k, v, bias=bias)   # {"o": ..., and every final of the script}

Tensors are NumPy arrays, torch tensors or anything else with ``__dlpack__``, of any strides; they are not copied. The operand
type and the widths follow from the tensors: kernels for new ones are compiled on first use and kept in a cache on disk.

This package is a thin layer over two C libraries: ``libaule`` runs kernels (include/aule/aule.h), ``libaulec`` compiles
scripts (include/aule/aulec.h) and is only needed for :func:`compile`. Both are looked for in the folders of the environment
variable ``AULE_LIBRARY_PATH``, in this package, and where the system keeps its libraries.
"""

from ._artifact import Parameter, TensorSpec
from ._axes import Axis, Positions, dense, packed, padded, paged
from ._compiler import compile, version as compiler_version
from ._decode import decode
from ._devices import DeviceInfo, describe_devices, devices, get_available_backends, get_backend_info, print_backend_info
from ._errors import ArgumentError, CacheWarning, CompileError, CompileWarning, CopyWarning, Error, LibraryError
from ._function import AttentionFunction, Results
from ._load import load
from ._libaule import version
from ._parts import Unfinished
from ._plain import Attention, attention, attention_script, flash_attention
from ._states import State
from ._varlen import attention_varlen
from ._vulkan import VulkanMemory, vulkan_memory

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "Attention",
    "AttentionFunction",
    "Axis",
    "CacheWarning",
    "CompileError",
    "CompileWarning",
    "CopyWarning",
    "DeviceInfo",
    "Error",
    "LibraryError",
    "Parameter",
    "Positions",
    "Results",
    "State",
    "TensorSpec",
    "Unfinished",
    "VulkanMemory",
    "attention",
    "attention_script",
    "attention_varlen",
    "compile",
    "compiler_version",
    "decode",
    "dense",
    "describe_devices",
    "devices",
    "flash_attention",
    "get_available_backends",
    "get_backend_info",
    "load",
    "packed",
    "padded",
    "paged",
    "print_backend_info",
    "version",
    "vulkan_memory",
]
