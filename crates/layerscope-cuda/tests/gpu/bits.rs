//! What the bits of a row must not depend on.

use layerscope_testing::made_up_states::Random;

use crate::attention::{AttentionCase, attended, attention_shapes};
use crate::on_every_card;
use crate::products::{LinearCase, applied};
use crate::support::{cards_of_every_dtype, same_bits};

#[test]
fn the_bits_of_a_product_do_not_depend_on_the_other_rows() {
    if cards_of_every_dtype().is_empty() {
        return;
    }
    let most = 9000;
    let mut random = Random::new(7);
    let sizes = [(768, 768), (768, 2304), (768, 3072), (3072, 768), (384, 1536), (576, 1536), (64, 48), (37, 22)];
    let cases = sizes.map(|(inputs, outputs)| LinearCase::new(&mut random, (most, inputs, outputs), 0, None));
    on_every_card(|cuda, report| {
        for case in &cases {
            let (inputs, outputs) = (case.weight.columns, case.weight.rows);
            for inner in [false, true] {
                let all = applied(cuda, case, inner);
                for (first, rows) in [(0, 1), (17, 1), (5, 2), (100, 63), (1000, 128), (77, 129), (3, 1000), (500, 8192)] {
                    let part = LinearCase {
                        weight: case.weight.clone(),
                        bias: case.bias.clone(),
                        x: case.x[first * inputs..(first + rows) * inputs].to_vec(),
                        activation: None,
                    };
                    if !same_bits(&applied(cuda, &part, inner), &all[first * outputs..(first + rows) * outputs]) {
                        let dtype = cuda.dtype().name();
                        report.failures.push(format!("{dtype}: {inputs} to {outputs}, {rows} rows from {first}, inner {inner}"));
                    }
                }
            }
        }
    });
}

#[test]
fn the_bits_of_attention_do_not_depend_on_other_sequences() {
    let mut random = Random::new(9);
    let shapes = attention_shapes(&mut random);
    let cases: Vec<_> = shapes.into_iter().map(|shape| AttentionCase::new(&mut random, shape, &[33, 1, 64, 150, 12])).collect();
    on_every_card(|cuda, report| {
        for case in &cases {
            let all = attended(cuda, case);
            for bounds in case.offsets.windows(2) {
                let rows = |width: usize| bounds[0] as usize * width..bounds[1] as usize * width;
                let qkv = case.qkv[rows(case.shape.qkv_width())].to_vec();
                let alone = AttentionCase { shape: case.shape.clone(), qkv, offsets: vec![0, bounds[1] - bounds[0]] };
                if !same_bits(&attended(cuda, &alone), &all[rows(case.shape.heads * case.shape.head_dim)]) {
                    report.failures.push(format!("{}: {}", cuda.dtype().name(), case.name()));
                }
            }
        }
    });
}
