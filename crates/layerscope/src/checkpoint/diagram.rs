//! A drawing of a block for the terminal.

use layerscope_compute::{Activation, NormKind};
use layerscope_model::spec::{BlockSpec, Gate, NormSpec, Residual};

/// The residual stream runs down the left, the two halves of the block hang off it on the right.
pub fn block_diagram(block: &BlockSpec) -> String {
    let norms = &block.norms;
    let attention = branch(norms.attention_in, attention_label(block), norms.attention_out);
    let feed_forward = branch(norms.feed_forward_in, feed_forward_label(block), norms.feed_forward_out);
    let mut lines = vec!["x".to_owned()];
    match block.residual {
        Residual::Sequential | Residual::SequentialFromNorms => {
            half(&mut lines, &attention, norms.after_attention);
            half(&mut lines, &feed_forward, norms.after_feed_forward);
        }
        Residual::Parallel { shared_norm } => parallel(&mut lines, attention, feed_forward, shared_norm),
    }
    lines.push("x'".to_owned());
    lines.join("\n")
}

fn branch(before: Option<NormSpec>, label: String, after: Option<NormSpec>) -> Vec<String> {
    before.map(norm_label).into_iter().chain([label]).chain(after.map(norm_label)).collect()
}

fn half(lines: &mut Vec<String>, branch: &[String], after: Option<NormSpec>) {
    lines.push("├──╮".to_owned());
    lines.extend(branch.iter().map(|part| format!("│  {part}")));
    lines.push("+──╯".to_owned());
    lines.extend(after.map(norm_label));
}

/// Both halves side by side, one above the other; a shared norm stands before the fork.
fn parallel(lines: &mut Vec<String>, mut attention: Vec<String>, feed_forward: Vec<String>, shared_norm: bool) {
    let shared = if shared_norm && attention.len() > 1 { attention.remove(0) + " ─" } else { String::new() };
    let lead = if shared.is_empty() { String::new() } else { format!("─ {shared}") };
    let (above, below) = (attention.join(" ─ "), feed_forward.join(" ─ "));
    let width = above.chars().count().max(below.chars().count());
    let pad = |text: &str| "─".repeat(width - text.chars().count());
    lines.push(format!("├─{lead}┬─ {above} {}╮", pad(&above)));
    lines.push(format!("│ {}╰─ {below} {}┤", " ".repeat(lead.chars().count()), pad(&below)));
    lines.push(format!("+─{}──{}──╯", "─".repeat(lead.chars().count()), "─".repeat(width)));
}

/// The name of a norm.
pub fn norm_label(norm: NormSpec) -> String {
    match norm.kind {
        NormKind::Layer => "LayerNorm".to_owned(),
        NormKind::Rms => "RMSNorm".to_owned(),
    }
}

fn attention_label(block: &BlockSpec) -> String {
    let attention = &block.attention;
    let mut label = format!("attention, {} heads of {}", attention.heads, attention.head_dim);
    if attention.kv_heads != attention.heads {
        label += &format!(" ({} for keys and values)", attention.kv_heads);
    }
    label += if attention.causal { ", causal" } else { ", both ways" };
    if let Some(window) = attention.window {
        label += &format!(", window {window}");
    }
    label
}

fn feed_forward_label(block: &BlockSpec) -> String {
    let feed_forward = &block.feed_forward;
    let gated = if feed_forward.gate == Gate::None { "" } else { "gated " };
    format!("feed-forward of {}, {gated}{}", feed_forward.width, activation_label(feed_forward.activation))
}

/// The name of an activation; the two GELUs are told apart.
pub fn activation_label(activation: Activation) -> &'static str {
    match activation {
        Activation::GeluErf => "GELU (exact)",
        Activation::GeluTanh => "GELU (tanh)",
        Activation::GeluQuick => "GELU (sigmoid)",
        Activation::Relu => "ReLU",
        Activation::ReluSquared => "squared ReLU",
        Activation::Silu => "SiLU",
        Activation::Tanh => "tanh",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layerscope_model::spec::{AttentionSpec, BlockNorms, FeedForwardSpec};

    fn block(residual: Residual, norms: BlockNorms) -> BlockSpec {
        BlockSpec {
            weights: 0,
            residual,
            norms,
            attention: AttentionSpec::multi_head(12, 64),
            feed_forward: FeedForwardSpec::plain(3072, Activation::GeluErf),
        }
    }

    #[test]
    fn drawings_follow_the_block() {
        let norm = NormSpec::layer(1e-5);
        let pre = "x\n├──╮\n│  LayerNorm\n│  attention, 12 heads of 64, both ways\n+──╯\n├──╮\n│  LayerNorm\n│  feed-forward of 3072, GELU (exact)\n+──╯\nx'";
        assert_eq!(block_diagram(&block(Residual::Sequential, BlockNorms::pre(norm))), pre);
        let post = "x\n├──╮\n│  attention, 12 heads of 64, both ways\n+──╯\nLayerNorm\n├──╮\n│  feed-forward of 3072, GELU (exact)\n+──╯\nLayerNorm\nx'";
        assert_eq!(block_diagram(&block(Residual::Sequential, BlockNorms::post(norm))), post);
        let shared = BlockNorms { attention_in: Some(norm), ..BlockNorms::default() };
        let parallel = "x\n├── LayerNorm ─┬─ attention, 12 heads of 64, both ways ╮\n│              ╰─ feed-forward of 3072, GELU (exact) ──┤\n+──────────────────────────────────────────────────────╯\nx'";
        assert_eq!(block_diagram(&block(Residual::Parallel { shared_norm: true }, shared)), parallel);
    }
}
