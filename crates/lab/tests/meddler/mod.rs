//! An attacker on the link that makes false claims, and a true one.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use weft_driver::{FrameTest, PacketRing, RingFrame};

use crate::kernel::say;
use crate::{PATIENCE, near};

const ETHERNET: usize = 14;
const IP: usize = 40;
/// The MTU that the router's messages claim.
const MTU: u32 = 1300;
/// This many segments in a row of the largest permitted size show that they stay so.
const ENOUGH: u64 = 100;

/// Reads what `victim` sends to `own`, an address of this host. Each segment that is longer than [`MTU`] gets a
/// router's message that it was too big, and false claims before it. When none is longer any more, says how many were,
/// how many of the largest permitted size came since, and how many false claims there were.
pub(crate) fn meddle(own: IpAddr, victim: IpAddr) {
    let (IpAddr::V6(own), IpAddr::V6(victim)) = (own, victim) else { panic!("addresses of IPv4") };
    // The kernel's own address is certain by then.
    let _ = near(own, 0);
    // What it does not read in time waits in a ring: it sees nearly all, however slow it is.
    let mut socket = PacketRing::open_for("rail0", &[&[FrameTest::Half(12, 0x86dd), FrameTest::Byte(20, 6)]]).unwrap();
    let hardware = socket.hardware();
    say("ready");
    let (mut larger, mut fitting, mut lies) = (0_u64, 0_u64, 0_u64);
    let mut frame = Vec::new();
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until, "it hangs: {larger} {fitting} {lies}");
        if socket.receive(&mut frame) != Some(RingFrame::Whole) {
            continue;
        }
        let frame = &frame[..];
        let is_theirs = frame.len() > ETHERNET + IP + 20
            && frame[12..14] == [0x86, 0xdd]
            && frame[ETHERNET + 6] == 6
            && frame[ETHERNET + 8..ETHERNET + 24] == victim.octets();
        if !is_theirs {
            continue;
        }
        let length = frame.len() - ETHERNET;
        if length > MTU as usize {
            (larger, fitting) = (larger + 1, 0);
            for lie in lies_about(frame, own, victim, hardware) {
                let _ = socket.send(&lie);
                lies += 1;
            }
            let _ = socket.send(&too_big(frame, own, victim, hardware, MTU, 0));
        } else if length == MTU as usize {
            fitting += 1;
        }
        if larger > 0 && fitting == ENOUGH {
            return say(&format!("{larger} {fitting} {lies}"));
        }
    }
}

/// False claims: this host's address is elsewhere, by an answer and by a claim; the path is narrower than any; a
/// segment was too big which no host has sent.
fn lies_about(frame: &[u8], own: Ipv6Addr, victim: Ipv6Addr, hardware: [u8; 6]) -> Vec<Vec<u8>> {
    let elsewhere = |flags: u8| {
        let body = [&[136, 0, 0, 0, flags, 0, 0, 0][..], &own.octets(), &[2, 1, 2, 0, 0, 0, 0, 0x66]].concat();
        icmp(frame, own, victim, hardware, body)
    };
    let narrow = |mtu, ahead| too_big(frame, own, victim, hardware, mtu, ahead);
    vec![elsewhere(0x60), elsewhere(0x20), narrow(0, 0), narrow(1279, 0), narrow(1280, 1 << 30)]
}

/// That this frame was too big, with the segment's number moved on.
fn too_big(frame: &[u8], own: Ipv6Addr, victim: Ipv6Addr, hardware: [u8; 6], mtu: u32, ahead: u32) -> Vec<u8> {
    let mut cause = frame[ETHERNET..ETHERNET + 1000].to_vec();
    let number: [u8; 4] = cause[IP + 4..IP + 8].try_into().unwrap();
    cause[IP + 4..IP + 8].copy_from_slice(&u32::from_be_bytes(number).wrapping_add(ahead).to_be_bytes());
    let body = [&[2, 0, 0, 0][..], &mtu.to_be_bytes(), &cause].concat();
    icmp(frame, own, victim, hardware, body)
}

/// A message to the sender of the frame, with its checksum.
fn icmp(frame: &[u8], own: Ipv6Addr, victim: Ipv6Addr, hardware: [u8; 6], mut body: Vec<u8>) -> Vec<u8> {
    let length = body.len() as u32;
    let pseudo = [&own.octets()[..], &victim.octets(), &length.to_be_bytes(), &[0, 0, 0, 58], &body].concat();
    let sum = pseudo.chunks(2).fold(0_u32, |sum, pair| {
        let sum = sum + u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        (sum & 0xffff) + (sum >> 16)
    });
    body[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    let header = [&[0x60, 0, 0, 0][..], &(length as u16).to_be_bytes(), &[58, 255], &own.octets(), &victim.octets()];
    [&frame[6..12], &hardware, &[0x86, 0xdd], &header.concat(), &body].concat()
}
