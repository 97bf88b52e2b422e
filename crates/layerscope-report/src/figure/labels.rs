//! Labels beside their points that never overlap.
//!
//! Deterministic: the most crowded points first, each label at the best free place on rings around its point, a few times over. A place is
//! free if it lies inside the panel and meets no other label and no labelled point, nor (while there is room) a line from another label to
//! its point. One that finds no place is left out.

use super::scene::Area;

/// A point that wants a label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub x: f64,
    pub y: f64,
    /// Radius of what is drawn at the point.
    pub radius: f64,
    /// Size of the label.
    pub width: f64,
    pub height: f64,
}

/// Distance of the rings, in points.
const STEP: f64 = 2.5;
/// Leader lines are drawn to labels farther away than this.
const NEAR: f64 = 5.0;

/// How many free places are compared for a label.
const TRIES: usize = 150;
/// How often every label looks for a better place.
const SWEEPS: usize = 4;

/// Where a label is put.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    pub area: Area,
    /// The line from the label to its point, if it is far from it.
    pub leader: Option<((f64, f64), (f64, f64))>,
}

/// A place for every label for which there is one inside of `bounds` and off the `obstacles`.
pub(crate) fn place(wishes: &[Wish], bounds: Area, obstacles: &[Area]) -> Vec<Option<Place>> {
    let near = |a: &Wish, b: &Wish| (a.x - b.x).abs() < a.width && (a.y - b.y).abs() < 3.0 * a.height;
    let crowd: Vec<usize> = wishes.iter().map(|wish| wishes.iter().filter(|other| near(wish, other)).count()).collect();
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    order.sort_by_key(|i| (usize::MAX - crowd[*i], *i));
    let mut places: Vec<Option<Place>> = vec![None; wishes.len()];
    for _ in 0..SWEEPS {
        for i in &order {
            let others: Vec<Place> = places.iter().enumerate().filter(|(j, _)| j != i).filter_map(|(_, place)| *place).collect();
            let best = |lines: bool| {
                let free = candidates(&wishes[*i], &bounds)
                    .filter(|candidate| {
                        is_free(candidate, &others, wishes, &bounds, lines) && !obstacles.iter().any(|area| candidate.area.overlaps(area))
                    })
                    .take(TRIES);
                free.map(|candidate| (cost(&candidate, *i, &others, wishes), candidate))
                    .min_by(|a, b| a.0.total_cmp(&b.0))
                    .map(|(_, place)| place)
            };
            // Where it is very crowded, a line may pass below a label.
            places[*i] = best(true).or_else(|| best(false));
        }
    }
    places
}

/// How far a label is from its point, and what its line disturbs; much more if it seems to belong to another point.
fn cost(place: &Place, own: usize, others: &[Place], wishes: &[Wish]) -> f64 {
    let distance = |wish: &Wish| {
        let (x, y) = (wish.x.clamp(place.area.x, place.area.right()), wish.y.clamp(place.area.y, place.area.bottom()));
        (x - wish.x).hypot(y - wish.y)
    };
    let away = distance(&wishes[own]);
    let mistaken = wishes.iter().enumerate().filter(|(i, wish)| *i != own && distance(wish) < away.min(8.0)).count();
    away + 12.0 * mistaken as f64 + if is_clear(place, own, others, wishes) { 0.0 } else { 25.0 }
}

/// Places on growing rings, right, left, above and below first.
fn candidates(wish: &Wish, bounds: &Area) -> impl Iterator<Item = Place> {
    let wish = *wish;
    let rings = ((bounds.width.hypot(bounds.height) / 2.0) / STEP) as usize;
    (0..rings.max(1)).flat_map(move |ring| {
        let distance = wish.radius + 1.0 + STEP * ring as f64;
        let count = 8 * (1 + ring / 3);
        (0..count).map(move |k| {
            // Spread evenly, both sides in turn: 0, 180, 90, 270, ...
            let turn = k as f64 / count as f64;
            let turn = [0.0, 0.5, 0.75, 0.25][k % 4] + turn / 4.0 * if k % 8 < 4 { 1.0 } else { -1.0 };
            let (dx, dy) = ((turn * std::f64::consts::TAU).cos(), (turn * std::f64::consts::TAU).sin());
            let (x, y) = (wish.x + dx * (distance + wish.width / 2.0 * dx.abs()), wish.y + dy * (distance + wish.height / 2.0 * dy.abs()));
            // The label touches the ring: its centre moves out by its half-size in that direction.
            let area = Area { x: x - wish.width / 2.0, y: y - wish.height / 2.0, width: wish.width, height: wish.height };
            let end = (wish.x.clamp(area.x, area.right()), wish.y.clamp(area.y, area.bottom()));
            let gap = (end.0 - wish.x).hypot(end.1 - wish.y);
            let leader = (gap > NEAR + wish.radius).then(|| {
                let part = wish.radius / gap;
                ((wish.x + (end.0 - wish.x) * part, wish.y + (end.1 - wish.y) * part), end)
            });
            Place { area, leader }
        })
    })
}

/// `lines`: whether labels must keep clear of lines too.
fn is_free(candidate: &Place, taken: &[Place], wishes: &[Wish], bounds: &Area, lines: bool) -> bool {
    let point =
        |wish: &Wish| Area { x: wish.x - wish.radius, y: wish.y - wish.radius, width: 2.0 * wish.radius, height: 2.0 * wish.radius };
    let crossed = |leader: Option<((f64, f64), (f64, f64))>, area: &Area| lines && leader.is_some_and(|leader| crosses(leader, area));
    bounds.contains(&candidate.area)
        && !wishes.iter().any(|wish| candidate.area.overlaps(&point(wish)))
        && taken.iter().all(|other| {
            !candidate.area.overlaps(&other.area) && !crossed(other.leader, &candidate.area) && !crossed(candidate.leader, &other.area)
        })
}

/// Whether the line to a label meets no other labelled point and no other line.
fn is_clear(candidate: &Place, own: usize, taken: &[Place], wishes: &[Wish]) -> bool {
    let Some(leader) = candidate.leader else { return true };
    let others = wishes.iter().enumerate().filter(|(i, _)| *i != own);
    let mut points = others.map(|(_, wish)| Area {
        x: wish.x - wish.radius,
        y: wish.y - wish.radius,
        width: 2.0 * wish.radius,
        height: 2.0 * wish.radius,
    });
    !points.any(|point| crosses(leader, &point)) && !taken.iter().filter_map(|place| place.leader).any(|other| meet(leader, other))
}

/// Whether two lines cross.
fn meet((a, b): ((f64, f64), (f64, f64)), (c, d): ((f64, f64), (f64, f64))) -> bool {
    let side = |p: (f64, f64), q: (f64, f64), r: (f64, f64)| (q.0 - p.0) * (r.1 - p.1) - (q.1 - p.1) * (r.0 - p.0) > 0.0;
    side(a, b, c) != side(a, b, d) && side(c, d, a) != side(c, d, b)
}

/// Whether a line passes through a rectangle (Liang and Barsky).
pub(crate) fn crosses((from, to): ((f64, f64), (f64, f64)), area: &Area) -> bool {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let (mut enter, mut leave) = (0.0f64, 1.0f64);
    for (slope, room) in [(-dx, from.0 - area.x), (dx, area.right() - from.0), (-dy, from.1 - area.y), (dy, area.bottom() - from.1)] {
        if slope == 0.0 {
            if room <= 0.0 {
                return false;
            }
        } else if slope < 0.0 {
            enter = enter.max(room / slope);
        } else {
            leave = leave.min(room / slope);
        }
    }
    enter < leave
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from 0 to 1 by a fixed rule.
    fn numbers(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / (1u64 << 31) as f64
        }
    }

    #[test]
    fn labels_never_overlap_labels_points_or_edges() {
        let bounds = Area { x: 10.0, y: 20.0, width: 220.0, height: 180.0 };
        let mut placed = 0;
        for seed in 0..24 {
            let mut number = numbers(seed);
            let crowd = if seed % 3 == 0 { 0.15 } else { 1.0 }; // a third of them in one corner
            let wishes: Vec<Wish> = (0..40)
                .map(|_| Wish {
                    x: bounds.x + number() * bounds.width * crowd,
                    y: bounds.y + number() * bounds.height * crowd,
                    radius: 2.0,
                    width: 10.0 + 40.0 * number(),
                    height: 7.0,
                })
                .collect();
            let places = place(&wishes, bounds, &[]);
            let found: Vec<&Place> = places.iter().flatten().collect();
            placed += found.len();
            for (i, one) in found.iter().enumerate() {
                assert!(bounds.contains(&one.area));
                assert!(wishes.iter().all(|wish| !one.area.overlaps(&Area { x: wish.x - 1.9, y: wish.y - 1.9, width: 3.8, height: 3.8 })));
                for other in &found[i + 1..] {
                    assert!(!one.area.overlaps(&other.area));
                }
            }
            assert_eq!(places, place(&wishes, bounds, &[]));
        }
        assert!(placed >= 24 * 38, "only {placed} of {} labels found a place", 24 * 40);
    }

    #[test]
    fn a_label_without_room_is_left_out() {
        let bounds = Area { x: 0.0, y: 0.0, width: 30.0, height: 10.0 };
        let wish = Wish { x: 15.0, y: 5.0, radius: 1.0, width: 40.0, height: 7.0 };
        assert_eq!(place(&[wish], bounds, &[]), [None]);
        let alone = Wish { width: 8.0, ..wish };
        let right = place(&[alone], bounds, &[])[0].unwrap();
        assert!(right.leader.is_none());
        let elsewhere = place(&[alone], bounds, &[right.area])[0].unwrap();
        assert!(!elsewhere.area.overlaps(&right.area));
    }

    #[test]
    fn lines_cross_rectangles_or_not() {
        let area = Area { x: 0.0, y: 0.0, width: 2.0, height: 2.0 };
        assert!(crosses(((-1.0, 1.0), (3.0, 1.0)), &area) && crosses(((-1.0, -1.0), (3.0, 3.0)), &area));
        assert!(!crosses(((-1.0, 3.0), (3.0, 3.0)), &area) && !crosses(((-2.0, 0.0), (0.0, 4.5)), &area));
    }
}
