//! The surface between two slices.

use super::cubes::{Edge, Table};
use super::field::{ISO, SAMPLE_BYTES};

/// Units of a coordinate between two points of the field.
pub(super) const UNIT: u32 = 256;

/// Of four corners with the same x, given as bits, the bits that they are of a cube, for x = 0.
const SPREAD: [usize; 16] = spread();

/// Two slices, and all cubes between them.
pub(super) struct Layer<'a> {
    /// Points on a side of a slice.
    pub(super) side: usize,
    /// The height of the lower slice.
    pub(super) z: usize,
    pub(super) below: &'a [u8],
    pub(super) above: &'a [u8],
}

/// A corner of a triangle: x, y, z in [`UNIT`]s.
pub(super) type Corner = [u32; 3];

impl Layer<'_> {
    /// Tells the triangles of all cubes, row by row.
    pub(super) fn march(&self, table: &Table, mut each: impl FnMut(&[Corner; 3])) {
        for y in 0..self.side.saturating_sub(1) {
            let rows = [
                self.row(self.below, y),
                self.row(self.below, y + 1),
                self.row(self.above, y),
                self.row(self.above, y + 1),
            ];
            let mut left = inside(&rows, 0);
            for x in 0..self.side - 1 {
                let right = inside(&rows, x + 1);
                let cube = SPREAD[left] | SPREAD[right] << 1;
                for triangle in table.of(cube) {
                    each(&triangle.map(|edge| cross(&rows, [x, y, self.z], edge)));
                }
                left = right;
            }
        }
    }

    fn row<'s>(&self, slice: &'s [u8], y: usize) -> &'s [u8] {
        &slice[y * self.side * SAMPLE_BYTES..][..self.side * SAMPLE_BYTES]
    }
}

/// Where the surface crosses an edge of the cube at this point.
fn cross(rows: &[&[u8]; 4], at: [usize; 3], Edge { low, axis }: Edge) -> Corner {
    let value = |corner: usize| i64::from(sample(rows[corner >> 1], at[0] + (corner & 1)));
    let (from, to) = (value(low), value(low | 1 << axis));
    let share = (i64::from(ISO) - from) * i64::from(UNIT) / (to - from);
    let mut corner = [0, 1, 2].map(|of| (at[of] + (low >> of & 1)) as u32 * UNIT);
    corner[axis] += share as u32;
    corner
}

/// Which of the four corners at this x are inside: bit 0 is y, bit 1 is z.
fn inside(rows: &[&[u8]; 4], x: usize) -> usize {
    (0..4).fold(0, |bits, row| bits | usize::from(sample(rows[row], x) >= ISO) << row)
}

fn sample(row: &[u8], x: usize) -> u16 {
    u16::from_le_bytes([row[SAMPLE_BYTES * x], row[SAMPLE_BYTES * x + 1]])
}

const fn spread() -> [usize; 16] {
    let (mut all, mut bits) = ([0; 16], 0);
    while bits < 16 {
        all[bits] = bits & 1 | (bits & 2) << 1 | (bits & 4) << 2 | (bits & 8) << 3;
        bits += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const SIDE: usize = 9;

    /// Slices of random points, of which some are inside, and none at the border.
    fn random() -> Vec<Vec<u8>> {
        let mut state = 7_u64;
        let mut is_inside = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            state >> 63 == 1
        };
        let is_border = |at: usize| at == 0 || at == SIDE - 1;
        let slice = |z: usize, is_inside: &mut dyn FnMut() -> bool| {
            let points = (0..SIDE * SIDE).map(|at| {
                let border = is_border(z) || is_border(at % SIDE) || is_border(at / SIDE);
                if is_inside() && !border { ISO + 1000 } else { ISO - 1000 }
            });
            points.flat_map(u16::to_le_bytes).collect()
        };
        (0..SIDE).map(|z| slice(z, &mut is_inside)).collect()
    }

    #[test]
    fn the_surface_has_no_hole() {
        let (slices, table) = (random(), Table::new());
        let mut sides: HashMap<(Corner, Corner), i32> = HashMap::new();
        let mut count = 0;
        for z in 0..SIDE - 1 {
            let layer = Layer { side: SIDE, z, below: &slices[z], above: &slices[z + 1] };
            layer.march(&table, |[a, b, c]| {
                count += 1;
                for (from, to) in [(a, b), (b, c), (c, a)] {
                    *sides.entry((*from, *to)).or_default() += 1;
                }
            });
        }
        assert!(count > 500, "{count} triangles");
        for ((from, to), times) in &sides {
            assert_eq!(sides.get(&(*to, *from)), Some(times), "{from:?} to {to:?} has another triangle on each side");
        }
    }

    #[test]
    fn a_crossing_is_where_the_values_say() {
        let slice = |values: [u16; 4]| values.into_iter().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let below = slice([ISO - 100, ISO + 300, ISO - 100, ISO + 300]);
        let layer = Layer { side: 2, z: 4, below: &below, above: &below };
        let mut corners = Vec::new();
        layer.march(&Table::new(), |triangle| corners.extend(*triangle));
        assert_eq!(corners.len(), 6);
        assert!(corners.iter().all(|[x, _, z]| *x == UNIT / 4 && (4 * UNIT..=5 * UNIT).contains(z)), "{corners:?}");
    }
}
