//! Datagram ports that the operating system watches, and that are looked at nevertheless.

/// When something has come at so many looks and nobody has slept meanwhile, the operating system is told to watch the
/// port no more: it takes a wake-up for each datagram that comes and for each that has left, whether somebody waits or
/// not. To watch it again takes two or three system calls.
const LOOKS: u32 = 64;

/// Whether the operating system watches a port that is looked at.
#[derive(Debug, Default)]
pub(super) struct VainWatch {
    is_watched: bool,
    /// Looks since then at which something had come.
    looks: u32,
}

impl VainWatch {
    /// The operating system was asked to watch the port.
    pub(super) fn begin(&mut self) {
        (self.is_watched, self.looks) = (true, 0);
    }

    /// Something has come at a look. Returns whether the port is to be watched no more.
    #[inline]
    pub(super) fn ends(&mut self) -> bool {
        if !self.is_watched {
            return false;
        }
        self.looks += 1;
        self.is_watched = self.looks < LOOKS;
        !self.is_watched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_once_when_nobody_has_slept_for_long() {
        let mut watch = VainWatch::default();
        assert!((0..2 * LOOKS).all(|_| !watch.ends()), "nobody watches");
        watch.begin();
        assert!((1..LOOKS).all(|_| !watch.ends()));
        watch.begin();
        assert!((1..LOOKS).all(|_| !watch.ends()), "somebody has slept meanwhile");
        assert!(watch.ends());
        assert!((0..2 * LOOKS).all(|_| !watch.ends()), "it has ended");
    }
}
