//! Neighbours against their definition, whatever the data.

use super::*;
use crate::sketch::sample_hash;

fn naive(states: &[f32], dim: usize, rows: &[u32], k: usize) -> Vec<f64> {
    let state = |row: u32| &states[row as usize * dim..][..dim];
    let distance = |a: u32, b: u32| state(a).iter().zip(state(b)).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum::<f64>().sqrt();
    rows.iter()
        .flat_map(|&a| {
            let mut all: Vec<f64> = rows.iter().filter(|b| **b != a).map(|&b| distance(a, b)).collect();
            all.sort_by(f64::total_cmp);
            all.truncate(k);
            all
        })
        .collect()
}

fn noise(at: usize) -> f32 {
    (sample_hash(4, at as u64, 0) >> 40) as f32 / 16_777_216.0 - 0.5
}

#[track_caller]
fn assert_exact(name: &str, known: &Neighbours, states: &[f32], dim: usize, rows: &[u32], k: usize, threads: usize) {
    let members = known.different(rows.iter().copied());
    let different: Vec<u32> = members.iter().map(|place| known.different[*place as usize]).collect();
    let (ours, theirs) = (known.distances(states, dim, &members, k, threads), naive(states, dim, &different, k));
    let far = ours.iter().zip(&theirs).find(|(ours, theirs)| (**ours - **theirs).abs() > 1e-13 * **theirs);
    assert_eq!((far, ours.len()), (None, theirs.len()), "{name}");
}

#[test]
fn neighbours_are_exact_whatever_the_data() {
    let (rows, dim) = (1700, 21);
    let base: Vec<f32> = (0..rows * dim).map(noise).collect();
    let change = |change: &dyn Fn(usize, usize, f32) -> f32| -> Vec<f32> {
        base.iter().enumerate().map(|(at, x)| change(at / dim, at % dim, *x)).collect()
    };
    let kinds = [
        ("uniform", change(&|_, _, x| x)),
        ("two tight clusters far apart", change(&|row, _, x| x * 1e-4 + if row % 2 == 0 { 1000.0 } else { -1000.0 })),
        ("massive", change(&|row, i, x| if row % 50 == 0 && i == 3 { 3000.0 + x } else { x })),
        ("one huge axis", change(&|_, i, x| if i == 3 { 1e6 * x } else { x })),
        ("huge", change(&|_, _, x| x * 1e37)),
        ("tiny", change(&|_, _, x| x * 1e-37)),
        ("far from the origin", change(&|_, _, x| 5000.0 + x)),
        ("a line", change(&|row, i, _| (row * (i + 1)) as f32)),
        ("a dense ball in a thin cloud", change(&|row, _, x| if row < 40 { x * 1e-3 } else { x })),
        ("duplicates", change(&|row, i, _| noise(row % 700 * dim + i))),
    ];
    for (name, states) in kinds {
        let all: Vec<u32> = (0..rows as u32).collect();
        // Parts of the cloud: as batches and typical states are.
        let (some, few): (Vec<u32>, Vec<u32>) = ((0..1650).collect(), (0..rows as u32).step_by(7).collect());
        let known = [1, 3].map(|threads| Neighbours::new(&states, dim, 5, threads));
        assert_eq!(known[0].lists, known[1].lists, "{name}");
        assert_exact(name, &known[0], &states, dim, &all, 5, 3);
        assert_exact(name, &known[0], &states, dim, &some, 5, 1);
        assert_exact(name, &known[1], &states, dim, &few, 2, 3);
    }
}

#[test]
fn small_clouds_and_narrow_ones() {
    for (rows, dim) in [(2, 3), (3, 1), (40, 1), (385, 2), (1500, 1), (2000, 130)] {
        let states: Vec<f32> = (0..rows * dim).map(noise).collect();
        let all: Vec<u32> = (0..rows as u32).collect();
        let known = Neighbours::new(&states, dim, 3, 2);
        let k = 3.min(known.different.len() - 1);
        assert_exact(&format!("{rows} x {dim}"), &known, &states, dim, &all, k, 2);
    }
    let equal = Neighbours::new(&[1.5; 30], 3, 5, 1);
    assert_eq!((equal.different, equal.lists), (vec![0], vec![]));
}

#[test]
fn clouds_that_are_put_in_order_first() {
    // Knots of rows, as those of one token are, with duplicates and a few rows far from all.
    let (rows, dim) = (4600, 24);
    let knot = |row: usize, i: usize| noise(row * row % 60 * dim + i) * 3.0;
    let far = |row: usize| if row % 900 == 7 { 1000.0 } else { 1.0 };
    let state = |row: usize, i: usize| far(row) * (knot(row, i) + noise((row % 4500) * dim + i));
    let states: Vec<f32> = (0..rows * dim).map(|at| state(at / dim % 4500, at % dim)).collect();
    let known = Neighbours::new(&states, dim, 6, 2);
    assert_eq!(known.different.len(), 4500);
    assert_exact("knots", &known, &states, dim, &(0..rows as u32).collect::<Vec<u32>>(), 6, 2);
    assert_exact("a part of them", &known, &states, dim, &(0..1200).collect::<Vec<u32>>(), 2, 2);
}

#[test]
fn parts_of_the_cloud_are_exact_when_lists_do_not_suffice() {
    // Half of the cloud is far denser: its rows fill the lists of their neighbours, which are of no use to the other half.
    let (rows, dim) = (3000, 8);
    let states: Vec<f32> = (0..rows * dim).map(|at| noise(at) * if at / dim % 2 == 0 { 0.01 } else { 1.0 }).collect();
    let known = Neighbours::new(&states, dim, 4, 1);
    let odd: Vec<u32> = (1..rows as u32).step_by(2).collect();
    assert_exact("the thin half", &known, &states, dim, &odd, 4, 1);
    assert_exact("few of it", &known, &states, dim, &(1..rows as u32).step_by(200).collect::<Vec<u32>>(), 4, 1);
}

#[test]
fn the_first_of_equal_rows_stays() {
    let states = [1.0, 2.0, 0.0, 3.0, 1.0, 2.0, -0.0, 3.0, 1.0, 2.5];
    assert_eq!(without_duplicates(&states, 2), (vec![0, 1, 4], vec![0, 1, 0, 1, 2]));
    assert_eq!(without_duplicates(&[], 2), (vec![], vec![]));
}
