//! The stack machine that a pickle is a program for.

use std::collections::HashMap;

use super::globals::{Global, global};
use super::input::Input;
use super::{Fault, PickledTensor, broken};
use crate::checkpoint::Dtype;

/// Instructions a pickle may have: a tensor takes about thirty.
pub(super) const MAX_INSTRUCTIONS: usize = 2_000_000;

/// The number of an object in the machine's list.
pub(super) type Id = usize;

/// What a pickle can make.
#[derive(Debug)]
pub(super) enum Object<'a> {
    None,
    Bool,
    Int(i64),
    Float,
    Bytes,
    Text(&'a str),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(Global),
    Storage { key: &'a str, dtype: Option<Dtype> },
    Tensor(PickledTensor<'a>),
}

impl Object<'_> {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Object::None => "None",
            Object::Bool => "a truth value",
            Object::Int(_) => "an integer",
            Object::Float => "a number",
            Object::Bytes => "a byte string",
            Object::Text(_) => "a string",
            Object::Tuple(_) => "a tuple",
            Object::List(_) => "a list",
            Object::Dict(_) => "a mapping",
            Object::Global(_) => "a class or function",
            Object::Storage { .. } => "a storage",
            Object::Tensor(_) => "a tensor",
        }
    }
}

/// The object a name stands for, if the pickle may use it.
fn resolve<'a>(module: &str, name: &str) -> Fault<Object<'a>> {
    let refused = || format!("its pickle wants to run `{}.{}`; refused: use safetensors", module.escape_debug(), name.escape_debug());
    global(module, name).map(Object::Global).ok_or_else(refused)
}

/// Interprets one pickle.
pub(super) struct Machine<'a> {
    input: Input<'a>,
    /// Everything made so far.
    pub objects: Vec<Object<'a>>,
    stack: Vec<Id>,
    /// Stack heights; nothing below the last one may be popped.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl<'a> Machine<'a> {
    /// At the first instruction of a pickle.
    pub fn new(pickle: &'a [u8]) -> Self {
        Machine { input: Input::new(pickle), objects: Vec::new(), stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() }
    }

    /// Interprets up to STOP and returns the object left on top.
    pub fn run(&mut self) -> Fault<Id> {
        for _ in 0..MAX_INSTRUCTIONS {
            match self.input.byte()? {
                b'.' => return self.pop(),
                instruction => self.step(instruction)?,
            }
        }
        Err(format!("its pickle has more than {MAX_INSTRUCTIONS} instructions; use safetensors"))
    }

    /// Interprets one instruction.
    fn step(&mut self, instruction: u8) -> Fault<()> {
        let object = match instruction {
            // PROTO, FRAME: nothing to do.
            0x80 => return self.input.take(1).map(drop),
            0x95 => return self.input.take(8).map(drop),
            // The stack: MARK, POP, POP_MARK, DUP.
            b'(' => {
                self.marks.push(self.stack.len());
                return Ok(());
            }
            b'0' => return self.pop().map(drop),
            b'1' => return self.pop_mark().map(drop),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
                return Ok(());
            }
            // The memo: BINPUT, LONG_BINPUT, MEMOIZE, BINGET, LONG_BINGET.
            b'q' => return self.input.byte().and_then(|key| self.put(key.into())),
            b'r' => return self.input.count().and_then(|key| self.put(key)),
            0x94 => return self.put(self.memo.len() as u32),
            b'h' => return self.input.byte().and_then(|key| self.get(key.into())),
            b'j' => return self.input.count().and_then(|key| self.get(key)),
            // APPEND, APPENDS, SETITEM, SETITEMS, BUILD fill the object below their arguments.
            b'a' => {
                let item = self.pop()?;
                return self.append(vec![item]);
            }
            b'e' => return self.pop_mark().and_then(|items| self.append(items)),
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                return self.set_items(&[key, value]);
            }
            b'u' => return self.pop_mark().and_then(|items| self.set_items(&items)),
            b'b' => return self.build(),
            // Constants.
            b'N' => Object::None,
            0x88 | 0x89 => Object::Bool,
            b'K' => Object::Int(self.input.byte()?.into()),
            b'M' => Object::Int(u16::from_le_bytes(self.input.array()?).into()),
            b'J' => Object::Int(i32::from_le_bytes(self.input.array()?).into()),
            0x8a => {
                let length = self.input.byte()?.into();
                Object::Int(self.input.long(length)?)
            }
            b'G' => self.input.take(8).map(|_| Object::Float)?,
            // BINUNICODE, SHORT_BINUNICODE, BINUNICODE8.
            b'X' => {
                let length = self.input.count()? as usize;
                Object::Text(self.input.text(length)?)
            }
            0x8c => {
                let length = self.input.byte()?.into();
                Object::Text(self.input.text(length)?)
            }
            0x8d => {
                let length = usize::try_from(u64::from_le_bytes(self.input.array()?)).map_err(|_| broken("a string is too long"))?;
                Object::Text(self.input.text(length)?)
            }
            // BINSTRING, SHORT_BINSTRING, BINBYTES, SHORT_BINBYTES.
            b'T' | b'B' => {
                let length = self.input.count()? as usize;
                self.input.take(length).map(|_| Object::Bytes)?
            }
            b'U' | b'C' => {
                let length = self.input.byte()?.into();
                self.input.take(length).map(|_| Object::Bytes)?
            }
            // Containers: EMPTY_TUPLE, TUPLE1, TUPLE2, TUPLE3, TUPLE, EMPTY_LIST, EMPTY_DICT.
            b')' => Object::Tuple(Vec::new()),
            0x85..=0x87 => {
                let mut items = Vec::new();
                for _ in 0..instruction - 0x84 {
                    items.push(self.pop()?);
                }
                items.reverse();
                Object::Tuple(items)
            }
            b't' => Object::Tuple(self.pop_mark()?),
            b']' => Object::List(Vec::new()),
            b'}' => Object::Dict(Vec::new()),
            // GLOBAL, INST (which would call), STACK_GLOBAL.
            b'c' | b'i' => {
                let (module, name) = (self.input.line()?, self.input.line()?);
                let found = resolve(module, name)?;
                if instruction == b'i' {
                    return Err("its pickle creates an object in a way that PyTorch does not use; refused: use safetensors".to_owned());
                }
                found
            }
            0x93 => {
                let (name, module) = (self.pop_text()?, self.pop_text()?);
                resolve(module, name)?
            }
            // BINPERSID, REDUCE.
            b'Q' => self.storage()?,
            b'R' => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                let result = self.call(function, arguments)?;
                self.stack.push(result);
                return Ok(());
            }
            other => {
                return Err(format!("its pickle has the instruction 0x{other:02x}, which PyTorch does not use; refused: use safetensors"));
            }
        };
        let id = self.make(object);
        self.stack.push(id);
        Ok(())
    }

    /// What a call to one of the globals describes.
    fn call(&mut self, function: Id, arguments: Id) -> Fault<Id> {
        let Object::Global(global) = self.objects[function] else {
            return Err(broken(&format!("it calls {}", self.objects[function].kind())));
        };
        let arguments = self.tuple(arguments)?;
        let first = arguments.first().copied();
        match (global, arguments.len()) {
            (Global::OrderedDict, 0) => Ok(self.make(Object::Dict(Vec::new()))),
            (Global::Size, 1) => Ok(arguments[0]),
            (Global::RebuildTensorV2, 6 | 7) => self.tensor(&arguments, None, arguments.get(6)),
            (Global::RebuildTensorV3, 7 | 8) => match self.objects[arguments[6]] {
                Object::Global(Global::Dtype(dtype)) => self.tensor(&arguments, Some(dtype), arguments.get(7)),
                _ => Err(broken("a tensor without a dtype")),
            },
            (Global::RebuildParameter, 3 | 4) => match first.map(|id| &self.objects[id]) {
                Some(Object::Tensor(_)) => Ok(arguments[0]),
                _ => Err(broken("a parameter without a tensor")),
            },
            (Global::RebuildFromType, 4) => match (&self.objects[arguments[0]], &self.objects[arguments[1]]) {
                (Object::Global(Global::RebuildTensorV2 | Global::RebuildTensorV3), Object::Global(Global::TensorClass)) => {
                    self.call(arguments[0], arguments[2])
                }
                _ => Err(broken("a tensor of a class of its own")),
            },
            (global, count) => Err(broken(&format!("{global:?} is called with {count} arguments"))),
        }
    }

    /// A tensor from the arguments of the function that would rebuild it.
    fn tensor(&mut self, arguments: &[Id], dtype: Option<Dtype>, metadata: Option<&Id>) -> Fault<Id> {
        let Object::Storage { key, dtype: stored } = self.objects[arguments[0]] else {
            return Err(broken("a tensor without a storage"));
        };
        // Bits such as "read this as negated" would change the values.
        if metadata.is_some_and(|&id| {
            !matches!(&self.objects[id], Object::None) && !matches!(&self.objects[id], Object::Dict(bits) if bits.is_empty())
        }) {
            return Err("one of its tensors is a lazily negated or conjugated view; use safetensors".to_owned());
        }
        let dtype = dtype.or(stored).ok_or_else(|| broken("a tensor without a dtype"))?;
        let (offset, shape, strides) = (self.size(arguments[1])?, self.sizes(arguments[2])?, self.sizes(arguments[3])?);
        if shape.len() != strides.len() {
            return Err(broken("a tensor's shape and strides differ in length"));
        }
        Ok(self.make(Object::Tensor(PickledTensor { storage: key, dtype, offset, shape, strides })))
    }

    /// The storage of a persistent id `("storage", class, key, device, elements)`.
    fn storage(&mut self) -> Fault<Object<'a>> {
        let id = self.pop()?;
        let id = self.tuple(id)?;
        let unknown = || broken("a reference to something that is not a storage");
        let &[tag, class, key, _device, _elements] = id.as_slice() else {
            return Err(unknown());
        };
        match (&self.objects[tag], &self.objects[class], &self.objects[key]) {
            (Object::Text("storage"), &Object::Global(Global::Storage(dtype)), &Object::Text(key)) => Ok(Object::Storage { key, dtype }),
            _ => Err(unknown()),
        }
    }

    fn append(&mut self, items: Vec<Id>) -> Fault<()> {
        let top = self.top()?;
        match &mut self.objects[top] {
            Object::List(list) => list.extend(items),
            other => return Err(broken(&format!("it appends to {}", other.kind()))),
        }
        Ok(())
    }

    fn set_items(&mut self, items: &[Id]) -> Fault<()> {
        let top = self.top()?;
        match &mut self.objects[top] {
            Object::Dict(entries) if items.len().is_multiple_of(2) => entries.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1]))),
            other => return Err(broken(&format!("it sets items of {}", other.kind()))),
        }
        Ok(())
    }

    /// Attributes, such as a state dict's `_metadata`, hold no weights.
    fn build(&mut self) -> Fault<()> {
        self.pop()?;
        let top = self.top()?;
        match &self.objects[top] {
            Object::Dict(_) => Ok(()),
            other => Err(broken(&format!("it sets attributes of {}", other.kind()))),
        }
    }

    /// Adds an object to the list.
    fn make(&mut self, object: Object<'a>) -> Id {
        self.objects.push(object);
        self.objects.len() - 1
    }

    fn put(&mut self, key: u32) -> Fault<()> {
        let top = self.top()?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn get(&mut self, key: u32) -> Fault<()> {
        let id = *self.memo.get(&key).ok_or_else(|| broken("it reads a memo that it never wrote"))?;
        self.stack.push(id);
        Ok(())
    }

    fn top(&self) -> Fault<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        self.stack[floor..].last().copied().ok_or_else(|| broken("its stack runs empty"))
    }

    fn pop(&mut self) -> Fault<Id> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Everything above the last mark.
    fn pop_mark(&mut self) -> Fault<Vec<Id>> {
        let floor = self.marks.pop().ok_or_else(|| broken("a mark is missing"))?;
        Ok(self.stack.split_off(floor))
    }

    fn pop_text(&mut self) -> Fault<&'a str> {
        let id = self.pop()?;
        match self.objects[id] {
            Object::Text(text) => Ok(text),
            ref other => Err(broken(&format!("it names a global by {}", other.kind()))),
        }
    }

    fn tuple(&self, id: Id) -> Fault<Vec<Id>> {
        match &self.objects[id] {
            // A shape is the longest tuple that is read, and no tensor has so many dimensions.
            Object::Tuple(items) if items.len() <= 16 => Ok(items.clone()),
            other => Err(broken(&format!("found {} instead of a short tuple", other.kind()))),
        }
    }

    fn sizes(&self, id: Id) -> Fault<Vec<usize>> {
        self.tuple(id)?.into_iter().map(|id| self.size(id)).collect()
    }

    fn size(&self, id: Id) -> Fault<usize> {
        match self.objects[id] {
            Object::Int(value) => usize::try_from(value).map_err(|_| broken("a negative size")),
            ref other => Err(broken(&format!("found {} instead of a size", other.kind()))),
        }
    }
}
