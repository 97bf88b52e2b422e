//! Weights on their way to a device: matrices on the host, as a checkpoint stores them.

use std::ops::Range;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Numbers as a checkpoint stores them.
#[derive(Clone, Debug, PartialEq)]
pub enum HostValues {
    /// In 32 bits.
    F32(Vec<f32>),
    /// In 16 bits, IEEE 754.
    F16(Vec<f16>),
    /// In 16 bits, the upper half of an f32.
    Bf16(Vec<bf16>),
}

/// Which of these a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NumberKind {
    /// 32 bits.
    F32,
    /// 16 bits, IEEE 754.
    F16,
    /// 16 bits, the upper half of an f32.
    Bf16,
}

impl NumberKind {
    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            NumberKind::F32 => 4,
            NumberKind::F16 | NumberKind::Bf16 => 2,
        }
    }
}

/// Does the same to numbers of each kind, and keeps the kind.
macro_rules! map_values {
    ($values:expr, $of_one_kind:ident => $result:expr) => {
        match $values {
            HostValues::F32($of_one_kind) => HostValues::F32($result),
            HostValues::F16($of_one_kind) => HostValues::F16($result),
            HostValues::Bf16($of_one_kind) => HostValues::Bf16($result),
        }
    };
}

impl HostValues {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            HostValues::F32(values) => values.len(),
            HostValues::F16(values) => values.len(),
            HostValues::Bf16(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them as f32, which is exact.
    pub fn into_f32(self) -> Vec<f32> {
        match self {
            HostValues::F32(values) => values,
            halves => {
                let mut wide = vec![0.0; halves.len()];
                halves.widen(0, &mut wide);
                wide
            }
        }
    }

    /// Those from `start` on as f32, which is exact, as many as `wide` has room for.
    pub fn widen(&self, start: usize, wide: &mut [f32]) {
        let range = start..start + wide.len();
        match self {
            HostValues::F32(values) => wide.copy_from_slice(&values[range]),
            HostValues::F16(values) => values[range].convert_to_f32_slice(wide),
            HostValues::Bf16(values) => values[range].convert_to_f32_slice(wide),
        }
    }

    /// Adds others at the end. Where the kinds differ, all become f32.
    fn append(&mut self, others: HostValues) {
        match (&mut *self, others) {
            (HostValues::F32(values), HostValues::F32(others)) => extend(values, &others),
            (HostValues::F16(values), HostValues::F16(others)) => extend(values, &others),
            (HostValues::Bf16(values), HostValues::Bf16(others)) => extend(values, &others),
            (_, others) => {
                let mut wide = std::mem::replace(self, HostValues::F32(Vec::new())).into_f32();
                extend(&mut wide, &others.into_f32());
                *self = HostValues::F32(wide);
            }
        }
    }
}

/// No more room than needed: weights fill the memory.
fn extend<T: Copy>(values: &mut Vec<T>, others: &[T]) {
    values.reserve_exact(others.len());
    values.extend_from_slice(others);
}

/// A row-major matrix on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// `rows * columns` numbers.
    pub values: HostValues,
    /// Number of rows.
    pub rows: usize,
    /// Numbers of a row.
    pub columns: usize,
}

impl HostTensor {
    /// From numbers in f32.
    pub fn from_f32(values: Vec<f32>, rows: usize, columns: usize) -> HostTensor {
        HostTensor { values: HostValues::F32(values), rows, columns }
    }

    /// Rows become columns.
    pub fn transposed(self) -> HostTensor {
        let HostTensor { values, rows, columns } = self;
        HostTensor { values: map_values!(values, values => transpose(&values, rows, columns)), rows: columns, columns: rows }
    }

    /// Adds the rows of another matrix below. Where the kinds of numbers differ, all become f32.
    pub fn append(&mut self, below: HostTensor) {
        assert_eq!(self.columns, below.columns, "rows of one width");
        self.values.append(below.values);
        self.rows += below.rows;
    }

    /// A matrix of some of the rows: the given ranges, one below the other.
    pub fn select_rows(&self, ranges: &[Range<usize>]) -> HostTensor {
        let rows = ranges.iter().map(Range::len).sum();
        let values = map_values!(&self.values, values => select(values, self.columns, ranges));
        HostTensor { values, rows, columns: self.columns }
    }
}

fn transpose<T: Copy + Default>(values: &[T], rows: usize, columns: usize) -> Vec<T> {
    let mut transposed = vec![T::default(); values.len()];
    for (r, row) in values.chunks_exact(columns).enumerate() {
        for (c, value) in row.iter().enumerate() {
            transposed[c * rows + r] = *value;
        }
    }
    transposed
}

fn select<T: Copy>(values: &[T], columns: usize, ranges: &[Range<usize>]) -> Vec<T> {
    let mut selected = Vec::with_capacity(ranges.iter().map(Range::len).sum::<usize>() * columns);
    ranges.iter().for_each(|range| selected.extend_from_slice(&values[range.start * columns..range.end * columns]));
    selected
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `[[0, 1], [2, 3], [4, 5]]` in each kind of numbers, which all hold small whole numbers exactly.
    fn all_kinds() -> [HostTensor; 3] {
        let tensor = |values| HostTensor { values, rows: 3, columns: 2 };
        let numbers = (0..6).map(|i| i as f32);
        [
            tensor(HostValues::F32(numbers.clone().collect())),
            tensor(HostValues::F16(numbers.clone().map(f16::from_f32).collect())),
            tensor(HostValues::Bf16(numbers.map(bf16::from_f32).collect())),
        ]
    }

    fn numbers(tensor: &HostTensor) -> Vec<f32> {
        assert_eq!(tensor.values.len(), tensor.rows * tensor.columns);
        tensor.values.clone().into_f32()
    }

    #[test]
    fn rows_are_moved_and_the_kind_of_numbers_stays() {
        for tensor in all_kinds() {
            let kind = std::mem::discriminant(&tensor.values);
            let transposed = tensor.clone().transposed();
            assert_eq!((numbers(&transposed), transposed.rows), (vec![0.0, 2.0, 4.0, 1.0, 3.0, 5.0], 2));
            let selected = tensor.select_rows(&[2..3, 0..2]);
            assert_eq!((numbers(&selected), selected.rows), (vec![4.0, 5.0, 0.0, 1.0, 2.0, 3.0], 3));
            let mut stacked = tensor.clone();
            stacked.append(selected.clone());
            assert_eq!((&numbers(&stacked)[4..8], stacked.rows), (&[4.0, 5.0, 4.0, 5.0][..], 6));
            assert!([&transposed, &selected, &stacked].iter().all(|tensor| std::mem::discriminant(&tensor.values) == kind));
            let mut wide = [0.0; 2];
            tensor.values.widen(3, &mut wide);
            assert_eq!(wide, [3.0, 4.0]);
        }
    }

    #[test]
    fn a_stack_of_different_kinds_is_f32() {
        for first in all_kinds() {
            for second in all_kinds().into_iter().filter(|second| second.values != first.values) {
                let mut stacked = first.clone();
                stacked.append(second);
                assert!(matches!(stacked.values, HostValues::F32(_)));
                assert_eq!(numbers(&stacked)[4..8], [4.0, 5.0, 0.0, 1.0]);
            }
        }
    }
}
