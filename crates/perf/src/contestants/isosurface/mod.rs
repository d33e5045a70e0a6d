//! An application that renders an iso-surface: one process holds a field in slices and distributes them in pieces, the
//! other finds the surface in each pair of slices by marching cubes while the next ones are in flight, and draws it.
//!
//! Balaji et al. (SC 2007) measured such an application over their three designs, with data sets of 1024 by 1024 to
//! 8192 by 8192 and pieces of 8 KB and 1 MB. Its data are not to be had: here the field is synthetic, and everything
//! is computed in integers or in operations that are exact, so that each machine finds the same surface and the same
//! picture, and a digest of both tells whether every byte came.

mod canvas;
mod cubes;
mod field;
mod png;
mod surface;

use std::time::{Duration, Instant};

use crate::model::job::{Job, Volume};
use crate::model::measure::{Figure, Measured, median};
use canvas::Canvas;
use cubes::Table;
pub(crate) use field::Field;
use surface::Layer;

/// Slices that may be in flight or unread at a time.
pub(crate) const RING: usize = 3;

/// Where slices come from, one after the other, pass after pass.
pub(crate) trait Slices {
    type Error: From<Mismatch>;

    /// Waits for the next slice, and fills this with it.
    fn next(&mut self, slice: &mut [u8]) -> Result<(), Self::Error>;

    /// Tells the source that a pass is drawn.
    fn drawn(&mut self) -> Result<(), Self::Error>;
}

/// What was drawn is not what is to be.
#[derive(Debug)]
pub(crate) struct Mismatch(pub(crate) String);

impl Volume {
    /// A field with this many points on a side of each slice, and the digest of its surface, which is drawn for that.
    pub(crate) fn of(side: usize) -> Self {
        let plain = Self { side, slices: Self::SLICES, digest: 0 };
        Self { digest: draw(&plain).digest, ..plain }
    }

    /// Bytes of a slice.
    pub(crate) fn slice_bytes(&self) -> usize {
        self.side * self.side * field::SAMPLE_BYTES
    }
}

/// The picture of the surface in a field with this many points on a side of each slice, as a file (PNG).
pub(crate) fn picture(side: usize) -> Vec<u8> {
    let renderer = draw(&Volume { side, slices: Volume::SLICES, digest: 0 });
    png::encode(canvas::SIDE, canvas::SIDE, &renderer.pixels)
}

/// Draws without a network between.
fn draw(volume: &Volume) -> Drawn {
    let (field, mut renderer) = (Field::new(volume), Renderer::new(volume));
    let mut slices = [vec![0; volume.slice_bytes()], vec![0; volume.slice_bytes()]];
    for z in 0..volume.slices {
        field.fill(z, &mut slices[1]);
        renderer.slice(z, &slices);
        slices.swap(0, 1);
    }
    renderer.finish()
}

/// A surface that was drawn.
struct Drawn {
    digest: u64,
    triangles: u64,
    /// Red, green and blue of each point, row by row.
    pixels: Vec<u8>,
}

/// Finds the surface, layer by layer, and draws it.
struct Renderer {
    volume: Volume,
    table: Table,
    canvas: Canvas,
    digest: Digest,
    triangles: u64,
}

impl Renderer {
    fn new(volume: &Volume) -> Self {
        let (table, canvas) = (Table::new(), Canvas::new(volume));
        Self { volume: *volume, table, canvas, digest: Digest::default(), triangles: 0 }
    }

    /// The slice at this height has come, as the second of these; the first is the one below it.
    fn slice(&mut self, z: usize, [below, above]: &[Vec<u8>; 2]) {
        if z == 0 {
            return;
        }
        let (canvas, digest, triangles) = (&mut self.canvas, &mut self.digest, &mut self.triangles);
        let layer = Layer { side: self.volume.side, z: z - 1, below, above };
        layer.march(&self.table, |corners| {
            corners.iter().flatten().for_each(|coordinate| digest.add(u64::from(*coordinate)));
            *triangles += 1;
            canvas.triangle(corners);
        });
    }

    /// Begins anew after this.
    fn finish(&mut self) -> Drawn {
        let pixels = self.canvas.take();
        let mut digest = std::mem::take(&mut self.digest);
        pixels.iter().for_each(|value| digest.add(u64::from(*value)));
        Drawn { digest: digest.0, triangles: std::mem::take(&mut self.triangles), pixels }
    }
}

/// FNV-1a, a number at a time.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn add(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x100_0000_01b3);
    }
}

/// The passive side: draws each pass, and checks what it has drawn. It tells how long it computed, in milliseconds of
/// the median pass.
///
/// # Errors
///
/// What `slices` fails with; a surface or a picture that is not the expected one.
pub(crate) fn draw_all<S: Slices>(job: &Job, slices: &mut S) -> Result<Measured, S::Error> {
    let volume = volume(job).map_err(Mismatch)?;
    let mut renderer = Renderer::new(&volume);
    let mut pair = [vec![0; volume.slice_bytes()], vec![0; volume.slice_bytes()]];
    let (mut times, mut triangles) = (Vec::new(), 0);
    for _ in 0..job.warmup + job.iterations {
        let mut busy = Duration::ZERO;
        for z in 0..volume.slices {
            slices.next(&mut pair[1])?;
            let began = Instant::now();
            renderer.slice(z, &pair);
            busy += began.elapsed();
            pair.swap(0, 1);
        }
        let began = Instant::now();
        let drawn = renderer.finish();
        times.push((busy + began.elapsed()).as_secs_f64() * 1e3);
        if drawn.digest != volume.digest {
            let words = format!("a surface with digest {:x}, not {:x}: bytes are wrong", drawn.digest, volume.digest);
            return Err(Mismatch(words).into());
        }
        triangles = drawn.triangles;
        slices.drawn()?;
    }
    let times = times.split_off(usize::try_from(job.warmup).unwrap_or(0));
    let mut figures = vec![(Figure::Triangles, triangles as f64)];
    figures.extend(median(times).map(|ms| (Figure::DrawingMs, ms)));
    Ok(Measured { figures: figures.into_iter().collect(), ..Measured::default() })
}

/// What a job of this kind renders.
pub(crate) fn volume(job: &Job) -> Result<Volume, String> {
    job.volume.ok_or_else(|| "a job that renders names no field".to_owned())
}

/// The active side: sends each pass as `pass` does, which returns when it is drawn. It tells the median time of a pass,
/// in milliseconds.
///
/// # Errors
///
/// What `pass` fails with.
pub(crate) fn send_all<E>(job: &Job, mut pass: impl FnMut() -> Result<(), E>) -> Result<Measured, E> {
    for _ in 0..job.warmup {
        pass()?;
    }
    let times = (0..job.iterations).map(|_| {
        let began = Instant::now();
        pass()?;
        Ok(began.elapsed().as_secs_f64() * 1e3)
    });
    let times = times.collect::<Result<Vec<_>, E>>()?;
    Ok(Measured { value: median(times), ..Measured::default() })
}

/// Where each piece of a slice begins and ends.
pub(crate) fn pieces(slice_bytes: usize, piece: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..slice_bytes).step_by(piece.max(1)).map(move |at| at..(at + piece).min(slice_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::tests::job;

    /// A field in local memory; a test may corrupt one byte of it.
    struct Local {
        field: Field,
        z: usize,
        wrong: bool,
        drawn: u64,
    }

    impl Slices for Local {
        type Error = Mismatch;

        fn next(&mut self, slice: &mut [u8]) -> Result<(), Mismatch> {
            self.field.fill(self.z, slice);
            if self.wrong && self.z == 3 {
                let at = slice.len() / 2 + 1;
                slice[at] ^= 0x80;
            }
            self.z = (self.z + 1) % Volume::SLICES;
            Ok(())
        }

        fn drawn(&mut self) -> Result<(), Mismatch> {
            self.drawn += 1;
            Ok(())
        }
    }

    fn local(side: usize, wrong: bool) -> (Job, Local) {
        let volume = Volume::of(side);
        let job = Job { volume: Some(volume), iterations: 2, warmup: 1, ..job() };
        (job, Local { field: Field::new(&volume), z: 0, wrong, drawn: 0 })
    }

    #[test]
    fn each_pass_draws_the_same() {
        let (job, mut slices) = local(24, false);
        let measured = draw_all(&job, &mut slices).unwrap();
        assert_eq!(slices.drawn, 3);
        assert!(measured.figures[&Figure::Triangles] > 1000.0, "{measured:?}");
    }

    #[test]
    fn one_wrong_byte_is_seen() {
        let (job, mut slices) = local(24, true);
        let Mismatch(words) = draw_all(&job, &mut slices).unwrap_err();
        assert!(words.contains("digest"), "{words}");
        assert_eq!(slices.drawn, 0);
    }

    #[test]
    fn digests_tell_sides_apart() {
        assert_ne!(Volume::of(16).digest, Volume::of(17).digest);
        assert_eq!(Volume::of(16), Volume::of(16));
    }

    #[test]
    fn pieces_cover_a_slice() {
        let of = |bytes, piece| pieces(bytes, piece).map(|range| (range.start, range.end)).collect::<Vec<_>>();
        assert_eq!(of(10, 4), [(0, 4), (4, 8), (8, 10)]);
        assert_eq!(of(8, 4), [(0, 4), (4, 8)]);
        assert_eq!(of(8, 100), [(0, 8)]);
    }

    #[test]
    fn a_picture_is_a_file_with_something_in_it() {
        let file = picture(16);
        assert!(file.starts_with(b"\x89PNG\r\n\x1a\n"));
        let pixels = draw(&Volume::of(32)).pixels;
        let background = &pixels[..3];
        let drawn = pixels.chunks_exact(3).filter(|pixel| *pixel != background).count();
        assert!(drawn * 3 > canvas::SIDE * canvas::SIDE, "{drawn} points are drawn");
    }
}
