//! The text drawing of a block, read back into its parts.

/// What happens to the hidden state, from top to bottom.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// A norm of the hidden state itself.
    Norm(String),
    /// A branch that is added to the hidden state.
    Half(Vec<String>),
    /// Branches side by side, all added at once, perhaps after one norm.
    Parallel { shared: Option<String>, branches: Vec<Vec<String>> },
}

/// The parts of a drawing such as `layerscope inspect` prints; none if it is something else.
pub(crate) fn parse(drawing: &str) -> Option<Vec<Step>> {
    let mut lines = drawing.lines();
    (lines.next()? == "x").then_some(())?;
    let mut steps = Vec::new();
    loop {
        let line = lines.next()?;
        if line == "x'" {
            return lines.next().is_none().then_some(steps);
        }
        if line == "├──╮" {
            let mut parts = Vec::new();
            loop {
                match lines.next()? {
                    "+──╯" => break,
                    part => parts.push(part.strip_prefix('│')?.trim().to_owned()),
                }
            }
            (!parts.is_empty()).then_some(())?;
            steps.push(Step::Half(parts));
        } else if let Some(line) = line.strip_prefix("├─") {
            let (before, above) = line.split_once('┬')?;
            let below = lines.next()?.strip_prefix('│')?.trim().strip_prefix('╰')?;
            lines.next()?.strip_prefix('+')?;
            let shared = before.trim_matches(['─', ' ']);
            steps.push(Step::Parallel {
                shared: (!shared.is_empty()).then(|| shared.to_owned()),
                branches: vec![parts(above), parts(below)],
            });
        } else {
            let is_name = line.chars().all(|character| character.is_alphanumeric() || matches!(character, ' ' | ',' | '.' | '(' | ')'));
            (is_name && !line.is_empty()).then_some(())?;
            steps.push(Step::Norm(line.to_owned()));
        }
    }
}

fn parts(branch: &str) -> Vec<String> {
    let words = branch.trim_matches(['─', ' ', '╮', '┤', '╯']);
    words.split('─').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawings_are_read_back() {
        let owned = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        let pre = "x\n├──╮\n│  LayerNorm\n│  attention, 12 heads of 64, both ways\n+──╯\nx'";
        assert_eq!(parse(pre), Some(vec![Step::Half(owned(&["LayerNorm", "attention, 12 heads of 64, both ways"]))]));
        let post = "x\n├──╮\n│  attention, 2 heads of 4, causal\n+──╯\nLayerNorm\nx'";
        assert_eq!(parse(post), Some(vec![Step::Half(owned(&["attention, 2 heads of 4, causal"])), Step::Norm("LayerNorm".into())]));
        let parallel = "x\n├── LayerNorm ─┬─ attention, 12 heads of 64 ╮\n│              ╰─ feed-forward of 3072, GELU (exact) ──┤\n+──────────────────────────────────────────────────────╯\nx'";
        let branches = vec![owned(&["attention, 12 heads of 64"]), owned(&["feed-forward of 3072, GELU (exact)"])];
        assert_eq!(parse(parallel), Some(vec![Step::Parallel { shared: Some("LayerNorm".into()), branches }]));
        let apart = "x\n├─┬─ LayerNorm ─ attention ╮\n│ ╰─ LayerNorm ─ feed-forward ─┤\n+──╯\nx'";
        let branches = vec![owned(&["LayerNorm", "attention"]), owned(&["LayerNorm", "feed-forward"])];
        assert_eq!(parse(apart), Some(vec![Step::Parallel { shared: None, branches }]));
        for wrong in ["", "x", "x\n├──╮\nx'", "x\n<script>\nx'", "y\nx'", "x\nx'\nmore"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
