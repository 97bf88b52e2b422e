//! The functions and classes a PyTorch pickle may mention. Whatever is not here is refused.

use crate::checkpoint::Dtype;

/// The functions and classes a pickle may mention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Global {
    OrderedDict,
    Size,
    TensorClass,
    /// `(storage, offset, shape, strides, requires_grad, hooks[, metadata])`
    RebuildTensorV2,
    /// `(storage, offset, shape, strides, requires_grad, hooks, dtype[, metadata])`
    RebuildTensorV3,
    /// `(tensor, requires_grad, hooks[, state])`
    RebuildParameter,
    /// `(function, class, arguments, state)`
    RebuildFromType,
    /// A typed storage, or an untyped one, which counts bytes.
    Storage(Option<Dtype>),
    Dtype(Dtype),
}

/// The allow-list.
pub(super) fn global(module: &str, name: &str) -> Option<Global> {
    Some(match (module, name) {
        ("collections", "OrderedDict") => Global::OrderedDict,
        ("torch", "Size") => Global::Size,
        ("torch", "Tensor") | ("torch.nn.parameter", "Parameter") => Global::TensorClass,
        ("torch._utils", "_rebuild_tensor_v2") => Global::RebuildTensorV2,
        ("torch._utils", "_rebuild_tensor_v3") => Global::RebuildTensorV3,
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => Global::RebuildParameter,
        ("torch._tensor", "_rebuild_from_type_v2") => Global::RebuildFromType,
        ("torch" | "torch.storage", "UntypedStorage" | "_UntypedStorage") => Global::Storage(None),
        ("torch", _) => match name.strip_suffix("Storage") {
            Some(kind) => Global::Storage(Some(storage_dtype(kind)?)),
            None => Global::Dtype(torch_dtype(name)?),
        },
        _ => return None,
    })
}

fn storage_dtype(kind: &str) -> Option<Dtype> {
    Some(match kind {
        "Double" => Dtype::F64,
        "Float" => Dtype::F32,
        "Half" => Dtype::F16,
        "BFloat16" => Dtype::Bf16,
        "ComplexDouble" => Dtype::C128,
        "ComplexFloat" => Dtype::C64,
        "Long" => Dtype::I64,
        "Int" => Dtype::I32,
        "Short" => Dtype::I16,
        "Char" => Dtype::I8,
        "Byte" => Dtype::U8,
        "Bool" => Dtype::Bool,
        _ => return None,
    })
}

fn torch_dtype(name: &str) -> Option<Dtype> {
    Some(match name {
        "float64" => Dtype::F64,
        "float32" => Dtype::F32,
        "float16" => Dtype::F16,
        "bfloat16" => Dtype::Bf16,
        "float8_e4m3fn" => Dtype::F8E4m3,
        "float8_e5m2" => Dtype::F8E5m2,
        "float8_e8m0fnu" => Dtype::F8E8m0,
        "int64" => Dtype::I64,
        "int32" => Dtype::I32,
        "int16" => Dtype::I16,
        "int8" => Dtype::I8,
        "uint64" => Dtype::U64,
        "uint32" => Dtype::U32,
        "uint16" => Dtype::U16,
        "uint8" => Dtype::U8,
        "bool" => Dtype::Bool,
        _ => return None,
    })
}
