//! Which frames a packet socket takes: a program of the kernel's classic packet filter
//! (Documentation/networking/filter.rst).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Takes a whole frame.
const ALL: u32 = u32::MAX;
/// Where the kernel shows what is known of a frame beside its bytes (`SKF_AD_OFF` of linux/filter.h): its kind
/// (`SKF_AD_PKTTYPE`), and whether it has a tag of a VLAN (`SKF_AD_VLAN_TAG_PRESENT`).
const KIND: u32 = (-0x1000_i32 + 4) as u32;
const TAGGED: u32 = (-0x1000_i32 + 48) as u32;
/// The kind of a frame that is for this interface's hardware address.
const TO_US: u32 = libc::PACKET_HOST as u32;
/// Tests of one alternative: a jump goes no further than a byte can say.
const MOST_TESTS: usize = 100;

/// What is asked of a frame. Positions count from its first byte, the receiver's hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameTest {
    /// It is for the hardware address of the interface, not for all or for somebody else.
    ToThisHost,
    /// It has no tag of a VLAN.
    Untagged,
    /// The byte at this position has this value.
    Byte(u32, u8),
    /// The big-endian number of 16 bits there has it.
    Half(u32, u16),
    /// The one of 32 bits has it.
    Word(u32, u32),
}

impl FrameTest {
    /// How wide what is loaded is, from where, and what it is to be.
    fn load(self) -> (u32, u32, u32) {
        match self {
            Self::ToThisHost => (libc::BPF_W, KIND, TO_US),
            Self::Untagged => (libc::BPF_W, TAGGED, 0),
            Self::Byte(at, value) => (libc::BPF_B, at, value.into()),
            Self::Half(at, value) => (libc::BPF_H, at, value.into()),
            Self::Word(at, value) => (libc::BPF_W, at, value),
        }
    }
}

const fn step(code: u32, no: u8, value: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: no, k: value }
}

/// The program that takes a frame of which all tests of one of the alternatives are true.
fn program(alternatives: &[&[FrameTest]]) -> Vec<libc::sock_filter> {
    let mut program = Vec::new();
    for tests in alternatives {
        let tests = &tests[..tests.len().min(MOST_TESTS)];
        for (at, test) in tests.iter().enumerate() {
            let (width, from, value) = test.load();
            // The next alternative is behind the tests that are left, two steps each, and the step that takes the
            // frame.
            let left = (tests.len() - at - 1) as u8;
            program.push(step(libc::BPF_LD | width | libc::BPF_ABS, 0, from));
            program.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 2 * left + 1, value));
        }
        program.push(step(libc::BPF_RET | libc::BPF_K, 0, ALL));
    }
    program.push(step(libc::BPF_RET | libc::BPF_K, 0, 0));
    program
}

/// Has a socket take such frames alone.
pub(super) fn attach(fd: &OwnedFd, alternatives: &[&[FrameTest]]) -> io::Result<()> {
    let mut steps = program(alternatives);
    let whole = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    let (pointer, length) = ((&raw const whole).cast(), size_of_val(&whole) as libc::socklen_t);
    // SAFETY: The kernel reads `whole` and the steps that it names, all of which live during the call.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, pointer, length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel makes of a program, as far as ours go.
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
                            // Whoever reads behind the end takes nothing.
                            None => return false,
                        },
                    };
                }
                code if code & 7 == libc::BPF_JMP => at += usize::from(if loaded == now.k { now.jt } else { now.jf }),
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
}
