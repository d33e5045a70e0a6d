//! What puts that go as messages weigh.

/// What a put that goes as messages weighs: at most this many of them, with at most this many bytes of payload in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Messages.
    pub messages: u32,
    /// Bytes of payload.
    pub bytes: u32,
}

impl Load {
    /// What a rank keeps of another's messages that come before their epoch, at most, and so what it may send of such
    /// to one rank in an epoch that has not begun behind a barrier ([`Fence::Tagged`](crate::Fence::Tagged)). It is the
    /// same everywhere. What follows waits for the fence, when all ranks are in that epoch.
    pub const EARLY: Self = Self { messages: 512, bytes: 256 * 1024 };

    /// One message of this many bytes.
    #[must_use]
    pub const fn message(bytes: u32) -> Self {
        Self { messages: 1, bytes }
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.messages = self.messages.saturating_add(more.messages);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }

    pub(crate) fn is_within(self, most: Self) -> bool {
        self.messages <= most.messages && self.bytes <= most.bytes
    }
}
