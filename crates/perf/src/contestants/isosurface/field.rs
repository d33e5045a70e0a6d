//! The synthetic field: Schoen's gyroid, sin x cos y + sin y cos z + sin z cos x, in integers.

use crate::model::job::Volume;

/// Bytes of a sample, the low one first.
pub(super) const SAMPLE_BYTES: usize = 2;
/// The value of the surface.
pub(super) const ISO: u16 = 1 << 15;

/// Periods along each side of a slice.
pub(super) const PERIODS: usize = 4;
/// Periods through all slices are this over [`HEIGHT_OF`].
pub(super) const HEIGHT: usize = 3;
pub(super) const HEIGHT_OF: usize = 4;
/// A period in units of phase.
const PERIOD: usize = 1 << 16;
/// The sum of the three products, each of at most 2^24, in a sample.
const SHIFT: u32 = 10;

/// A field.
pub(crate) struct Field {
    /// Sine and cosine along a side.
    across: Vec<[i32; 2]>,
    /// The same through the slices.
    up: Vec<[i32; 2]>,
}

impl Field {
    pub(crate) fn new(volume: &Volume) -> Self {
        let across = (0..volume.side).map(|at| waves(at * PERIODS * PERIOD / volume.side));
        let last = (volume.slices - 1).max(1);
        let up = (0..volume.slices).map(|at| waves(at * HEIGHT * PERIOD / (HEIGHT_OF * last)));
        Self { across: across.collect(), up: up.collect() }
    }

    /// Writes the samples of a slice, row by row.
    ///
    /// # Panics
    ///
    /// There is no such slice.
    pub(crate) fn fill(&self, z: usize, slice: &mut [u8]) {
        let [sin_z, cos_z] = self.up[z];
        let rows = slice.chunks_exact_mut(self.across.len() * SAMPLE_BYTES);
        for (row, [sin_y, cos_y]) in rows.zip(&self.across) {
            let fixed = sin_y * cos_z;
            for (sample, [sin_x, cos_x]) in row.chunks_exact_mut(SAMPLE_BYTES).zip(&self.across) {
                let sum = sin_x * cos_y + fixed + sin_z * cos_x;
                let value = (i32::from(ISO) + (sum >> SHIFT)).clamp(0, i32::from(u16::MAX)) as u16;
                sample.copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}

/// Sine and cosine of a phase, times 4096.
fn waves(phase: usize) -> [i32; 2] {
    [wave(phase), wave(phase + PERIOD / 4)]
}

/// Two parabolas in place of a sine: exact, and as smooth as the surface needs.
fn wave(phase: usize) -> i32 {
    let half = PERIOD / 2;
    let (within, phase) = (phase % half, phase % PERIOD);
    let height = (within * (half - within)) >> 16;
    if phase < half { height as i32 } else { -(height as i32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_goes_up_and_down() {
        let at = [0, 1, 2, 3, 4].map(|quarter| wave(quarter * PERIOD / 4));
        assert_eq!(at, [0, 4096, 0, -4096, 0]);
        assert!((wave(PERIOD / 12) - 2048).abs() < 250, "near half of it at 30 degrees: {}", wave(PERIOD / 12));
    }

    #[test]
    fn samples_are_on_both_sides_of_the_surface() {
        let volume = Volume { side: 32, slices: 8, digest: 0 };
        let field = Field::new(&volume);
        let mut slice = vec![0; volume.slice_bytes()];
        for z in 0..volume.slices {
            field.fill(z, &mut slice);
            let above = slice.chunks_exact(2).filter(|sample| sample[1] >= 0x80).count();
            assert!((300..724).contains(&above), "slice {z}: {above} of 1024");
        }
    }
}
