//! Slices of a field over a socket: as many as fit into its buffers are in flight.

use std::io::{self, Read, Write};

use crate::contestants::isosurface::{Field, Mismatch, Slices, draw_all, pieces, send_all, volume};
use crate::contestants::sockets::exchange::{read_exact, write_all};
use crate::model::job::{Job, Role};
use crate::model::measure::{Measured, Watch};

pub(crate) fn run(stream: &mut (impl Read + Write), job: &Job) -> io::Result<Measured> {
    let watch = Watch::start();
    let measured = match job.role() {
        Role::Passive => draw_all(job, &mut Inbox(stream)),
        Role::Active => send(stream, job),
    }?;
    Ok(Measured { cpu_share: Some(watch.cpu_share()), ..measured })
}

struct Inbox<'a, S>(&'a mut S);

impl<S: Read + Write> Slices for Inbox<'_, S> {
    type Error = io::Error;

    fn next(&mut self, slice: &mut [u8]) -> io::Result<()> {
        read_exact(self.0, slice)
    }

    fn drawn(&mut self) -> io::Result<()> {
        write_all(self.0, &[0])
    }
}

impl From<Mismatch> for io::Error {
    fn from(Mismatch(words): Mismatch) -> Self {
        Self::other(words)
    }
}

fn send(stream: &mut (impl Read + Write), job: &Job) -> io::Result<Measured> {
    let volume = volume(job).map_err(io::Error::other)?;
    let field = Field::new(&volume);
    let slice = |z| {
        let mut slice = vec![0; volume.slice_bytes()];
        field.fill(z, &mut slice);
        slice
    };
    let slices: Vec<Vec<u8>> = (0..volume.slices).map(slice).collect();
    send_all(job, || {
        for slice in &slices {
            pieces(slice.len(), job.size).try_for_each(|piece| write_all(stream, &slice[piece]))?;
        }
        read_exact(stream, &mut [0])
    })
}
