//! The kernels of the statistics, loaded once.

use cudarc::driver::CudaFunction;
use layerscope_compute::Result;

use crate::kernels::Kernels;

macro_rules! functions {
    ($($source:literal: $($name:ident),*;)*) => {
        /// Every function by its name.
        pub(super) struct Functions {
            $($(pub $name: CudaFunction,)*)*
        }

        impl Functions {
            /// Compiles them, or finds them compiled.
            pub fn load(kernels: &Kernels) -> Result<Functions> {
                Ok(Functions { $($($name: kernels.function($source, &[], stringify!($name))?,)*)* })
            }
        }
    };
}

functions! {
    "statistics_rows": pool_items, row_norms, massive_rows, copy_found, keep_rows;
    "statistics_moments": group_numbers, group_tiles, group_crossings, fold_parts, corpus_vectors, finish_numbers;
    "statistics_sequences": sequence_pieces, sequence_joins, sequence_similarities, sequence_means;
    "statistics_shapes": sequence_shapes;
    "statistics_peaks": row_peaks, enter_peaks;
    "statistics_scatter": column_sums, column_means, widen_rows, pair_means, merge_gram, finish_gram, merge_cross, finish_cross;
}
