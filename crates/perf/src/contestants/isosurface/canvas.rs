//! Triangles as seen from above and from one side, with light from the other one.

use super::field::{HEIGHT, HEIGHT_OF, PERIODS};
use super::surface::{Corner, UNIT};
use crate::model::job::Volume;

/// Points on a side of the picture.
pub(super) const SIDE: usize = 480;
/// Where nothing is.
const BACKGROUND: [u8; 3] = [250, 250, 247];
/// Of what is low, and of what is high.
const COLOURS: [[f64; 3]; 2] = [[60.0, 110.0, 190.0], [250.0, 190.0, 110.0]];
/// Where the light comes from, as seen: from the left, from above, from the front.
const LIGHT: [f64; 3] = [-0.48, -0.6, 0.64];
/// What is lit even with no light on it.
const AMBIENT: f64 = 0.25;
/// Cosine and sine of the angle that the field is tilted by.
const TILT: [f64; 2] = [0.8, 0.6];
/// What is above the field in the picture, for what is high at its far edge.
const MARGIN: f64 = (SIDE * UNIT as usize / 8) as f64;

/// A picture, and how near what is drawn at each point is.
pub(super) struct Canvas {
    /// What a point of the field is wide in the picture.
    scale: f64,
    /// What a slice is high in the picture.
    slice: f64,
    /// The height of all slices, in [`UNIT`]s.
    height: f64,
    pixels: Vec<[u8; 3]>,
    nearest: Vec<i64>,
}

/// A corner as it is seen: right, down and towards the eye, in [`UNIT`]s of a point of the picture.
type Seen = [i64; 3];

impl Canvas {
    /// The field is as wide as the picture, and its surface has the proportions of the gyroid.
    pub(super) fn new(volume: &Volume) -> Self {
        let last = (volume.slices - 1).max(1);
        Self {
            scale: SIDE as f64 / volume.side as f64,
            slice: (SIDE * HEIGHT) as f64 / (PERIODS * HEIGHT_OF * last) as f64,
            height: last as f64 * f64::from(UNIT),
            pixels: vec![BACKGROUND; SIDE * SIDE],
            nearest: vec![i64::MIN; SIDE * SIDE],
        }
    }

    /// The picture, after which a new one begins.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.nearest.fill(i64::MIN);
        let taken = self.pixels.concat();
        self.pixels.fill(BACKGROUND);
        taken
    }

    pub(super) fn triangle(&mut self, corners: &[Corner; 3]) {
        let seen = corners.map(|corner| self.see(corner));
        let area = cross(seen[0], seen[1], seen[2]);
        if area == 0 {
            return;
        }
        let (unit, mut colour) = (i64::from(UNIT), None);
        let (across, along) = (range(&seen, 0), range(&seen, 1));
        for down in along {
            for right in across.clone() {
                let point = [right * unit + unit / 2, down * unit + unit / 2, 0];
                let parts = [(1, 2), (2, 0), (0, 1)].map(|(from, to)| cross(seen[from], seen[to], point));
                if parts.iter().any(|part| part.signum() == -area.signum()) {
                    continue;
                }
                let near = (0..3).map(|at| parts[at] * seen[at][2]).sum::<i64>() / area;
                let at = down as usize * SIDE + right as usize;
                if near > self.nearest[at] {
                    self.nearest[at] = near;
                    // Most triangles are smaller than a point of the picture, and need none.
                    self.pixels[at] = *colour.get_or_insert_with(|| self.colour(corners, &seen));
                }
            }
        }
    }

    fn colour(&self, corners: &[Corner; 3], seen: &[Seen; 3]) -> [u8; 3] {
        let height = f64::from(corners[0][2] + corners[1][2] + corners[2][2]) / (3.0 * self.height);
        let (light, [low, high]) = (light(seen), COLOURS);
        [0, 1, 2].map(|of| ((low[of] + (high[of] - low[of]) * height) * light) as u8)
    }

    /// The far edge of the field is tilted away from the eye.
    fn see(&self, [x, y, z]: Corner) -> Seen {
        let [right, back] = [x, y].map(|value| f64::from(value) * self.scale);
        let (up, [cosine, sine]) = (f64::from(z) * self.slice, TILT);
        [right as i64, (back * cosine - up * sine + MARGIN) as i64, (back * sine + up * cosine) as i64]
    }
}

/// The points of the picture that a triangle may touch.
fn range(seen: &[Seen; 3], axis: usize) -> std::ops::RangeInclusive<i64> {
    let point = |value: i64| value.div_euclid(i64::from(UNIT)).clamp(0, SIDE as i64 - 1);
    let [a, b, c] = seen.map(|corner| corner[axis]);
    point(a.min(b).min(c))..=point(a.max(b).max(c))
}

/// Twice the area of a triangle as it is seen.
fn cross(a: Seen, b: Seen, c: Seen) -> i64 {
    (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
}

/// How bright a triangle is. Sums, products, quotients and roots of floating-point numbers are the same on every
/// machine (IEEE 754), and so are all colours.
fn light([a, b, c]: &[Seen; 3]) -> f64 {
    let from = |to: &Seen| [0, 1, 2].map(|of| (to[of] - a[of]) as f64);
    let (one, other) = (from(b), from(c));
    let normal = [
        one[1] * other[2] - one[2] * other[1],
        one[2] * other[0] - one[0] * other[2],
        one[0] * other[1] - one[1] * other[0],
    ];
    let dot = |other: &[f64; 3]| normal[0] * other[0] + normal[1] * other[1] + normal[2] * other[2];
    let length = dot(&normal).sqrt().max(1e-9);
    AMBIENT + (1.0 - AMBIENT) * (dot(&LIGHT) / length).abs().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of 16 points, one of which is 30 points of the picture wide.
    fn canvas() -> Canvas {
        Canvas::new(&Volume { side: 16, slices: 8, digest: 0 })
    }

    fn pixel(pixels: &[u8], right: usize, down: usize) -> [u8; 3] {
        let at = 3 * (down * SIDE + right);
        [pixels[at], pixels[at + 1], pixels[at + 2]]
    }

    #[test]
    fn a_triangle_covers_what_is_within_it() {
        let mut canvas = canvas();
        canvas.triangle(&[[0, 0, 0], [16 * UNIT, 0, 0], [0, 16 * UNIT, 0]]);
        let pixels = canvas.take();
        assert_ne!(pixel(&pixels, 10, 80), BACKGROUND);
        assert_eq!(pixel(&pixels, SIDE - 10, SIDE - 100), BACKGROUND, "beyond its long side");
        assert_eq!(pixel(&pixels, 10, 20), BACKGROUND, "above it");
        let covered = pixels.chunks_exact(3).filter(|pixel| *pixel != BACKGROUND).count();
        assert!((90_000..95_000).contains(&covered), "half of 480 by 384: {covered}");
        assert!(canvas.take().chunks_exact(3).all(|pixel| pixel == BACKGROUND), "a new picture");
    }

    #[test]
    fn what_is_nearer_hides_what_is_behind() {
        let flat = |z: u32| [[0, 0, z], [16 * UNIT, 0, z], [0, 16 * UNIT, z]];
        // The same points of the picture are those of another place of the field when it is higher.
        let (low, high) = (flat(0), flat(UNIT));
        let draw = |order: [&[Corner; 3]; 2]| {
            let mut canvas = canvas();
            order.into_iter().for_each(|triangle| canvas.triangle(triangle));
            canvas.take()
        };
        assert_eq!(draw([&low, &high]), draw([&high, &low]));
        assert_ne!(draw([&low, &high]), draw([&low, &low]));
    }

    #[test]
    fn a_triangle_seen_from_its_side_is_nothing() {
        let mut canvas = canvas();
        canvas.triangle(&[[UNIT, UNIT, 0], [UNIT, UNIT, UNIT], [UNIT, UNIT, 2 * UNIT]]);
        assert!(canvas.take().chunks_exact(3).all(|pixel| pixel == BACKGROUND));
    }
}
