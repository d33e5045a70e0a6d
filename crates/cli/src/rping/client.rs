//! The active side: owns the data, counts the pings.

use std::net::SocketAddr;

use weft::verbs::{Access, MemoryRegion};

use super::arguments::Arguments;
use super::ping::{Advert, fill};
use weft_command::connection::{Endpoint, Link, LinkError, failed, resolve};
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;

/// Tagged offsets of the two buffers. Real ones are addresses; nothing here works only because they are 0.
const SOURCE_BASE: u64 = 0x7f12_3450_0000;
const SINK_BASE: u64 = 0x7f67_89a0_0010;

/// Pings the server.
pub(super) fn run(
    arguments: &Arguments,
    remote: SocketAddr,
    endpoint: &Endpoint,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let local = arguments.source.as_deref().map(|source| resolve(source, 0)).transpose()?;
    let link = endpoint.connect(remote, local)?;
    arguments.trace(format_args!("connected: {:?}", link.queue_pair.info()));
    let buffers = Buffers::new(&link, arguments.size as usize)?;
    let mut number = 0;
    while (arguments.count == 0 || number < arguments.count) && !interrupt.has_come() {
        ping(arguments, &link, &buffers, number)?;
        number += 1;
    }
    link.close().map_err(|error| error.during("cannot disconnect"))
}

/// What the server reads, and where it writes.
struct Buffers {
    source: MemoryRegion,
    sink: MemoryRegion,
}

impl Buffers {
    fn new(link: &Link, size: usize) -> Result<Self, Failure> {
        let register = |access, base| {
            link.domain.register_at(vec![0; size], access, base).map_err(failed("cannot register a buffer"))
        };
        Ok(Self {
            source: register(Access::REMOTE_READ, SOURCE_BASE)?,
            sink: register(Access::LOCAL_WRITE | Access::REMOTE_WRITE, SINK_BASE)?,
        })
    }
}

fn ping(arguments: &Arguments, link: &Link, buffers: &Buffers, number: u32) -> Result<(), Failure> {
    let during = |what: &'static str| move |error: LinkError| error.during(format_args!("ping {number}: {what}"));
    let mut sent = vec![0; arguments.size as usize];
    fill(&mut sent, number);
    buffers.source.write(0, &sent).map_err(|error| Failure::Runtime(error.to_string()))?;
    exchange(arguments, link, &buffers.source).map_err(during("while the server reads"))?;
    exchange(arguments, link, &buffers.sink).map_err(during("while the server writes back"))?;
    let back = buffers.sink.to_vec();
    if arguments.validate {
        compare(&sent, &back).map_err(|what| Failure::Runtime(format!("ping {number}: {what}")))?;
    }
    arguments.show("ping data: ", &back)
}

/// Names a buffer to the server and waits until it says that it is done with it.
fn exchange(arguments: &Arguments, link: &Link, region: &MemoryRegion) -> Result<(), LinkError> {
    let advert = Advert::of(region);
    arguments.trace(format_args!("advertise {advert:?}"));
    link.send(&advert.emit())?;
    let length = link.receive(&mut [0; Advert::LENGTH])?;
    if length != Advert::LENGTH {
        return Err(LinkError::Broken(format!(
            "the server answered with {length} bytes, rping does with {}",
            Advert::LENGTH
        )));
    }
    Ok(())
}

fn compare(sent: &[u8], back: &[u8]) -> Result<(), String> {
    match sent.iter().zip(back).position(|(sent, back)| sent != back) {
        None => Ok(()),
        Some(at) => Err(format!(
            "data mismatch: byte {at} of {} came back as {:#04x}, {:#04x} was sent",
            sent.len(),
            back[at],
            sent[at]
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_is_named() {
        assert_eq!(compare(b"abc", b"abc"), Ok(()));
        let text = compare(b"abc", b"abX").unwrap_err();
        assert_eq!(text, "data mismatch: byte 2 of 3 came back as 0x58, 0x63 was sent");
    }
}
