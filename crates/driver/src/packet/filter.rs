//! The frames that a packet socket accepts: a program of the kernel's classic packet filter
//! (Documentation/networking/filter.rst).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Accepts a whole frame.
const ALL: u32 = u32::MAX;
/// Offsets of a frame's metadata (`SKF_AD_OFF` of linux/filter.h): its kind (`SKF_AD_PKTTYPE`), and whether it has a
/// VLAN tag (`SKF_AD_VLAN_TAG_PRESENT`).
const KIND: u32 = (-0x1000_i32 + 4) as u32;
const TAGGED: u32 = (-0x1000_i32 + 48) as u32;
/// The kind of a frame to this interface's hardware address.
const TO_US: u32 = libc::PACKET_HOST as u32;
/// The maximum number of tests of one alternative: a jump's distance is one byte, and a test has up to three steps.
const MOST_TESTS: usize = 80;

/// A condition on a frame. Offsets count from its first byte, the receiver's hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameTest {
    /// It is addressed to the interface, not to all or to another host.
    ToThisHost,
    /// It has no VLAN tag.
    Untagged,
    /// The byte at this offset has this value.
    Byte(u32, u8),
    /// The big-endian 16-bit number at this offset has this value.
    Half(u32, u16),
    /// The 32-bit number has this value.
    Word(u32, u32),
    /// The 16-bit number is at least the first, and at most the second.
    Between(u32, u16, u16),
    /// The 16-bit number has none of these bits.
    Without(u32, u16),
}

/// The comparison with the loaded value, its operand, and whether the frame passes when that is true.
type Check = (u32, u32, bool);

impl FrameTest {
    /// The width and offset of a load, and its comparisons.
    fn load(self) -> (u32, u32, [Option<Check>; 2]) {
        let is = |value: u32| [Some((libc::BPF_JEQ, value, true)), None];
        match self {
            Self::ToThisHost => (libc::BPF_W, KIND, is(TO_US)),
            Self::Untagged => (libc::BPF_W, TAGGED, is(0)),
            Self::Byte(at, value) => (libc::BPF_B, at, is(value.into())),
            Self::Half(at, value) => (libc::BPF_H, at, is(value.into())),
            Self::Word(at, value) => (libc::BPF_W, at, is(value)),
            Self::Between(at, first, last) => {
                let checks = [(libc::BPF_JGE, u32::from(first), true), (libc::BPF_JGT, u32::from(last), false)];
                (libc::BPF_H, at, checks.map(Some))
            }
            Self::Without(at, bits) => (libc::BPF_H, at, [Some((libc::BPF_JSET, bits.into(), false)), None]),
        }
    }
}

const fn step(code: u32, [yes, no]: [u8; 2], value: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: yes, jf: no, k: value }
}

/// Steps that fall through when a test is true, and jump `left` further steps when it is not.
fn steps(test: FrameTest, left: usize) -> Vec<libc::sock_filter> {
    let (width, from, checks) = test.load();
    let mut steps = vec![step(libc::BPF_LD | width | libc::BPF_ABS, [0; 2], from)];
    let count = checks.iter().flatten().count();
    for (at, (compare, value, passes)) in checks.into_iter().flatten().enumerate() {
        let away = (left + count - at - 1) as u8;
        let jumps = if passes { [0, away] } else { [away, 0] };
        steps.push(step(libc::BPF_JMP | compare | libc::BPF_K, jumps, value));
    }
    steps
}

/// A program that accepts a frame for which all tests of one of the alternatives are true.
fn program(alternatives: &[&[FrameTest]]) -> Vec<libc::sock_filter> {
    let mut program = Vec::new();
    for tests in alternatives {
        // From the last one on: the next alternative follows the steps made so far. The accepting step.
        let mut all = vec![step(libc::BPF_RET | libc::BPF_K, [0; 2], ALL)];
        for test in tests[..tests.len().min(MOST_TESTS)].iter().rev() {
            all.splice(0..0, steps(*test, all.len()));
        }
        program.append(&mut all);
    }
    program.push(step(libc::BPF_RET | libc::BPF_K, [0; 2], 0));
    program
}

/// Makes a socket accept such frames alone.
pub(super) fn attach(fd: &OwnedFd, alternatives: &[&[FrameTest]]) -> io::Result<()> {
    let mut steps = program(alternatives);
    let whole = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    let (pointer, length) = ((&raw const whole).cast(), size_of_val(&whole) as libc::socklen_t);
    // SAFETY: The kernel reads `whole` and the steps that it refers to, all of which live during the call.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, pointer, length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Locks a socket's filter for all processes that get the socket (`SO_LOCK_FILTER` of socket(7)).
pub(super) fn lock(fd: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let (pointer, length) = ((&raw const on).cast(), size_of_val(&on) as libc::socklen_t);
    // SAFETY: The kernel reads a number during the call.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LOCK_FILTER, pointer, length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interprets a program as the kernel does, as far as ours need.
    fn takes(program: &[libc::sock_filter], frame: &[u8], kind: u32, tagged: u32) -> bool {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let now = program[at];
            at += 1;
            match u32::from(now.code) {
                code if code & 7 == libc::BPF_LD => {
                    let width = [4, 2, 1][(code >> 3 & 3) as usize];
                    loaded = match now.k {
                        KIND => kind,
                        TAGGED => tagged,
                        from => match frame.get(from as usize..from as usize + width) {
                            Some(bytes) => bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)),
                            // A load beyond the end rejects the frame.
                            None => return false,
                        },
                    };
                }
                code if code & 7 == libc::BPF_JMP => {
                    let is_so = match code & 0xf0 {
                        libc::BPF_JGE => loaded >= now.k,
                        libc::BPF_JGT => loaded > now.k,
                        libc::BPF_JSET => loaded & now.k != 0,
                        _ => loaded == now.k,
                    };
                    at += usize::from(if is_so { now.jt } else { now.jf });
                }
                _ => return now.k > 0,
            }
        }
    }

    #[test]
    fn a_frame_is_taken_when_all_of_one_alternative_is_true() {
        let ours = [FrameTest::ToThisHost, FrameTest::Untagged, FrameTest::Half(0, 0x0102), FrameTest::Byte(3, 9)];
        let program = program(&[&ours, &[FrameTest::Word(0, 0xff00_0000)]]);
        assert!(takes(&program, &[1, 2, 0, 9], TO_US, 0));
        assert!(!takes(&program, &[1, 2, 0, 9], 1, 0), "for all");
        assert!(!takes(&program, &[1, 2, 0, 9], TO_US, 1), "of a VLAN");
        assert!(!takes(&program, &[1, 3, 0, 9], TO_US, 0) && !takes(&program, &[1, 2, 0, 8], TO_US, 0));
        assert!(takes(&program, &[0xff, 0, 0, 0], 1, 1), "the other one");
        assert!(!takes(&program, &[1, 2], TO_US, 0), "it ends too soon");
    }

    #[test]
    fn a_range_has_both_its_ends_and_a_bit_that_may_not_be_is_seen() {
        let ours = [FrameTest::Without(0, 0x3fff), FrameTest::Between(2, 0x0102, 0x0203), FrameTest::Byte(4, 9)];
        let program = program(&[&ours, &[FrameTest::Byte(4, 8)]]);
        for (half, is_taken) in [([1, 1], false), ([1, 2], true), ([1, 0xff], true), ([2, 3], true), ([2, 4], false)] {
            assert_eq!(takes(&program, &[0x40, 0, half[0], half[1], 9], TO_US, 0), is_taken, "{half:?}");
            assert!(takes(&program, &[0x40, 0, half[0], half[1], 8], TO_US, 0), "the other one");
        }
        for flags in [[0x20, 0], [0, 1], [0x1f, 0xff]] {
            assert!(!takes(&program, &[flags[0], flags[1], 1, 2, 9], TO_US, 0), "{flags:?}");
        }
        // The maximum number stays within a jump's distance.
        let many = [FrameTest::Between(0, 1, 2); MOST_TESTS + 9];
        assert!(
            !takes(&super::program(&[&many]), &[0, 3], TO_US, 0) && takes(&super::program(&[&many]), &[0, 2], TO_US, 0)
        );
    }
}
