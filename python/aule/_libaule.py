"""include/aule/aule.h, artifact.h and dlpack.h for ctypes: the layouts and functions that this package uses, no more."""

from __future__ import annotations

import ctypes
import struct
from ctypes import (
    POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64,
    c_void_p,
)
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ._errors import ArgumentError, Error, LibraryError
from ._libraries import load_library

API_VERSION = 1

# ---- dlpack.h


class DLDevice(Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DLDataType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(Structure):
    _fields_ = [
        ("data", c_void_p), ("device", DLDevice), ("ndim", c_int32), ("dtype", DLDataType),
        ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64),
    ]


class DLManagedTensorVersioned(Structure):
    _fields_ = [
        ("major", c_uint32), ("minor", c_uint32), ("manager_ctx", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
        ("dl_tensor", DLTensor),
    ]


# ---- artifact.h: what describes an attention

TENSOR_GRAD, TENSOR_OPTIONAL, TENSOR_IN_K, TENSOR_JOINED = 1, 2, 4, 8
TENSOR_LISTS, TENSOR_CACHED, TENSOR_APPENDED, TENSOR_MODIFIED = 16 | 32 | 64 | 128 | 1024, 4096, 8192, 4194304
TENSOR_BROUGHT = TENSOR_LISTS | 256 | 2048 | 16384 | 32768 | 65536 | 131072 | 262144 | 524288 | 1048576 | 2097152
OPERAND, F32, F16, BF16, I32, I64, U8, BOOL = range(8)
E_CONST_INT, E_CONST_FLOAT, E_SIZE = 1, 2, 3


class Expr(Structure):
    _fields_ = [("code", POINTER(c_uint32)), ("length", c_uint32)]


class SizeV1(Structure):
    _fields_ = [("name", c_char_p)]


class TensorV1(Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("name", c_char_p), ("role", c_uint32), ("dtype", c_uint32), ("rank", c_uint32),
        ("flags", c_uint32), ("axes", POINTER(Expr)),
    ]


class ParamV1(Structure):
    _fields_ = [("struct_size", c_uint32), ("name", c_char_p), ("dtype", c_uint32), ("default_value", Expr)]


class RequireV1(Structure):
    _fields_ = [("condition", Expr), ("text", c_char_p)]


class FixedV1(Structure):
    _fields_ = [("size", c_uint32), ("value", c_int64)]


class VariantV1(Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("operation", c_char_p), ("target", c_char_p), ("arch", c_char_p), ("features", c_char_p),
        ("dtype", c_uint32), ("fixed_count", c_uint32), ("fixed", POINTER(FixedV1)), ("schedule", c_char_p),
        ("code_format", c_uint32), ("code_bytes", c_uint64), ("code", c_void_p),
        ("workspace_count", c_uint32), ("workspaces", c_void_p), ("launch_count", c_uint32), ("launches", c_void_p),
        ("check_count", c_uint32), ("checks", c_void_p),  # since version 1.1
        ("condition", Expr), ("flags", c_uint32),  # since version 1.15
    ]

    def checked(self) -> bool:
        """Was it compiled with ``checked``, and is there something to check?"""
        return self.struct_size > VariantV1.check_count.offset and self.check_count > 0


VARIANT_BY_BATCH, VARIANT_INVARIANT = 1, 2


class AttentionV1(Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("name", c_char_p), ("formula", c_char_p),
        ("size_count", c_uint32), ("sizes", POINTER(SizeV1)),
        ("tensor_count", c_uint32), ("tensors", POINTER(TensorV1)),
        ("param_count", c_uint32), ("params", POINTER(ParamV1)),
        ("require_count", c_uint32), ("requires", POINTER(RequireV1)),
        ("variant_count", c_uint32), ("variants", POINTER(VariantV1)),
    ]


class ModuleV1(Structure):
    _fields_ = [
        ("magic", ctypes.c_char * 8), ("version_major", c_uint32), ("version_minor", c_uint32), ("struct_size", c_uint32),
        ("attention_count", c_uint32), ("attentions", POINTER(AttentionV1)), ("producer", c_char_p), ("source_name", c_char_p),
        ("source_hash", c_uint64),
    ]


def step(items: Any, index: int, layout: type[Structure]) -> Any:
    """The item of an array whose elements may be larger than this version knows (artifact.h, Versions)."""
    base = ctypes.cast(items, c_void_p).value
    return layout.from_address(base + index * items[0].struct_size)


# ---- aule.h


class DeviceInfoStruct(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("id", c_char_p), ("backend", c_char_p), ("available", c_int32), ("reason", c_char_p),
        ("name", c_char_p), ("driver", c_char_p), ("features", c_char_p), ("kind", c_uint32), ("units", c_uint32),
        ("memory_bytes", c_uint64), ("dl", DLDevice),
        ("uuid", c_char_p),
    ]


class DeviceOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("allocator", c_void_p), ("threads", c_uint32), ("queue_kind", c_uint32), ("attention", c_void_p), ("context", c_void_p),
    ]


QUEUE_COMMANDS = 2  # AULE_QUEUE_COMMANDS


class VulkanSemaphore(Structure):
    _fields_ = [("semaphore", c_uint64), ("value", c_uint64)]


class VulkanQueue(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("waits", POINTER(VulkanSemaphore)), ("wait_count", c_size_t), ("signals", POINTER(VulkanSemaphore)), ("signal_count", c_size_t),
    ]


class TensorArg(Structure):
    _fields_ = [("name", c_char_p), ("tensor", POINTER(DLTensor))]


class Value(Structure):
    _fields_ = [("type", c_uint32), ("reserved", c_uint32), ("i", c_int64), ("f", c_double)]


class ParamArg(Structure):
    _fields_ = [("name", c_char_p), ("value", Value)]


CALL_INVARIANT = 1  # AULE_CALL_INVARIANT


class Call(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("operation", c_char_p), ("tensors", POINTER(TensorArg)), ("tensor_count", c_size_t),
        ("params", POINTER(ParamArg)), ("param_count", c_size_t), ("arch", c_char_p), ("flags", c_uint32),
    ]


# aule_run, aule_address and aule_value as words: filling arrays of structures is what would cost most of a call.
RUN = struct.Struct("=QQQQQQ")  # struct_size, queue, workspace, workspace_bytes, tensors, params
ADDRESS_WORDS = 2  # data, byte_offset


@lru_cache(maxsize=None)
def run_of(count: int) -> struct.Struct:
    """A run, with the addresses of so many tensors behind it."""
    return struct.Struct(RUN.format + f"{count * ADDRESS_WORDS}Q")


VALUE = struct.Struct("=IIqd")  # type, reserved, i, f
OBJECTS = struct.Struct("=QQQQQQQQ")  # aule_objects: struct_size, read, none, objects, count, addresses, words, word_count


HANDLE = c_void_p
OUT = POINTER(c_void_p)

# name: (result, arguments). A result of "status" is checked; the error object is the last argument, added by call().
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "aule_version": (c_char_p, [POINTER(c_uint32)]),
    "aule_status_name": (c_char_p, [c_int32]),
    "aule_error_status": (c_int32, [HANDLE]),
    "aule_error_message": (c_char_p, [HANDLE]),
    "aule_error_free": (None, [HANDLE]),
    "aule_module_open": ("status", [c_char_p, c_void_p, OUT]),
    "aule_module_close": (None, [HANDLE]),
    "aule_module_descriptor": (POINTER(ModuleV1), [HANDLE]),
    "aule_module_find": ("status", [HANDLE, c_char_p, OUT]),
    "aule_attention_descriptor": (POINTER(AttentionV1), [HANDLE]),
    "aule_attention_shape": ("status", [HANDLE, POINTER(Call), c_char_p, POINTER(c_int32), POINTER(c_int64), POINTER(DLDataType)]),
    "aule_text_free": (None, [c_void_p]),
    "aule_device_list_new": ("status", [c_void_p, OUT]),
    "aule_device_list_count": (c_size_t, [HANDLE]),
    "aule_device_list_get": (POINTER(DeviceInfoStruct), [HANDLE, c_size_t]),
    "aule_device_list_free": (None, [HANDLE]),
    "aule_device_open": ("status", [c_char_p, c_void_p, OUT]),
    "aule_device_close": (None, [HANDLE]),
    "aule_device_get_info": (POINTER(DeviceInfoStruct), [HANDLE]),
    "aule_describe_devices": ("status", [c_void_p, OUT]),
    "aule_cache_folder": ("status", [OUT]),
    "aule_cache_limit": ("status", [POINTER(c_uint64)]),
    "aule_cache_trim": ("status", [c_uint64, c_void_p]),
    "aule_device_synchronize": ("status", [HANDLE, c_void_p]),
    "aule_buffer_new": ("status", [HANDLE, c_uint64, OUT]),
    "aule_buffer_export": ("status", [HANDLE, c_uint64, OUT, POINTER(c_int32), POINTER(c_uint64)]),
    "aule_buffer_import": ("status", [HANDLE, c_int32, c_uint64, OUT]),
    "aule_timeline_export": ("status", [HANDLE, OUT, POINTER(c_int32)]),
    "aule_timeline_import": ("status", [HANDLE, c_int32, OUT]),
    "aule_timeline_signal": ("status", [HANDLE, c_void_p, c_uint64]),
    "aule_timeline_wait": ("status", [HANDLE, c_void_p, c_uint64]),
    "aule_timeline_handle": (c_uint64, [HANDLE]),
    "aule_timeline_free": (None, [HANDLE]),
    "aule_buffer_host": ("status", [HANDLE, c_void_p, c_uint64, OUT]),
    "aule_buffer_free": (None, [HANDLE]),
    "aule_buffer_data": (c_void_p, [HANDLE]),
    "aule_buffer_upload": ("status", [HANDLE, c_uint64, c_void_p, c_uint64]),
    "aule_buffer_download": ("status", [HANDLE, c_uint64, c_void_p, c_uint64]),
    "aule_plan_new": ("status", [HANDLE, HANDLE, POINTER(Call), OUT]),
    "aule_plan_free": (None, [HANDLE]),
    "aule_plan_workspace": (c_uint64, [HANDLE, POINTER(c_uint32)]),
    "aule_plan_variant": (POINTER(VariantV1), [HANDLE]),
    "aule_plan_spilled": (c_uint64, [HANDLE]),
    "aule_plan_run": ("status", [HANDLE, c_void_p]),
    "aule_plan_report": ("status", [HANDLE, c_void_p]),
    "aule_objects_read": (c_size_t, [c_void_p]),
}


class Library:
    """libaule, with a method for each function; those that return a status raise instead."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self) -> None:
        self.cdll, self.path = load_library("aule")
        for name, (result, arguments) in FUNCTIONS.items():
            try:
                function = getattr(self.cdll, name)
            except AttributeError:
                raise LibraryError(f"{self.path} has no {name}: it is of another version") from None
            checked = result == "status"
            function.restype = c_int32 if checked else result
            function.argtypes = arguments + [OUT] if checked else arguments
            setattr(self, name.removeprefix("aule_"), self._checked(function) if checked else function)
        # Reading Python's objects takes the interpreter's lock, and may leave an exception
        self.objects_read = ctypes.PyDLL(self.path).aule_objects_read
        self.objects_read.restype, self.objects_read.argtypes = c_size_t, [c_void_p]
        api = c_uint32()
        self.release = self.version(ctypes.byref(api)).decode()
        if api.value < API_VERSION:
            raise LibraryError(f"{self.path} has interface {api.value}, this package needs {API_VERSION}")

    def _checked(self, function):
        def call(*arguments):
            error = c_void_p()
            if function(*arguments, ctypes.byref(error)) != 0:
                raise self._exception(error)

        return call

    def _exception(self, error: c_void_p) -> Error:
        status = self.status_name(self.error_status(error)).decode()
        message = self.error_message(error).decode(errors="replace")
        self.error_free(error)
        return (ArgumentError if status in ARGUMENT_STATUSES else Error)(message, status)

    def handle(self, function, *arguments) -> c_void_p:
        """Calls a function whose last argument receives a handle, and returns the handle."""
        out = c_void_p()
        function(*arguments, ctypes.byref(out))
        return out


ARGUMENT_STATUSES = {"tensor", "param", "require", "name", "index", "work"}


@lru_cache(maxsize=None)
def library() -> Library:
    """libaule, loaded on first use."""
    return Library()


def version() -> str:
    """The version of libaule that is loaded."""
    return library().release
