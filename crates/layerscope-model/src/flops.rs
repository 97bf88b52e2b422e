//! What a token costs: the floating-point operations of a forward pass.

use crate::spec::{BlockSpec, Gate, ModelSpec};

impl ModelSpec {
    /// Operations a token takes where a query sees `keys` keys on average: two for every weight of the linear layers that its state goes
    /// through, and four times the width of all heads for every key (its score, and its part of the sum). Norms, activations and
    /// look-ups are not counted.
    pub fn flops_per_token(&self, keys: f64) -> f64 {
        let embedding = self.embedding.projection.map_or(0, |_| self.embedding.width * self.width);
        let output = self.output_projection.map_or(0, |width| width * self.width);
        2.0 * (embedding + output) as f64 + self.blocks.iter().map(|block| block.flops(self.width, keys)).sum::<f64>()
    }
}

impl BlockSpec {
    fn flops(&self, width: usize, keys: f64) -> f64 {
        let attention = &self.attention;
        let queries = attention.heads * attention.head_dim;
        let projections = width * (2 * queries + 2 * attention.kv_heads * attention.head_dim);
        let matrices = if self.feed_forward.gate == Gate::None { 2 } else { 3 };
        2.0 * (projections + matrices * width * self.feed_forward.width) as f64 + 4.0 * keys * queries as f64
    }
}
