//! An endpoint: tagged messages and their completions.

use core::mem::{self, size_of};
use core::ptr;

use super::error::Error;
use super::fabric::{Fabric, close};
use super::slots::{Operation, Slots};
use crate::abi::errno::{FI_EAGAIN, FI_EAVAIL};
use crate::abi::{
    FI_AV_UNSPEC, FI_CQ_COND_NONE, FI_CQ_FORMAT_TAGGED, FI_ENABLE, FI_RECV, FI_TRANSMIT, FI_WAIT_NONE, fi_addr_t,
    fi_av_attr, fi_cq_attr, fi_cq_err_entry, fi_cq_tagged_entry, fid_av, fid_cq, fid_ep,
};

/// A peer that [`Endpoint::insert`] made known. Only for the endpoint that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(fi_addr_t);

/// Whether the provider took an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an operation that was not accepted must be posted again"]
pub enum Posted {
    /// It did.
    Accepted,
    /// It has no room now: poll for completions, then try again.
    TryAgain,
}

/// An operation that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its slot, idle again.
    pub slot: usize,
    /// What it was.
    pub operation: Operation,
    /// Bytes received; of a send the provider need not say.
    pub length: usize,
    /// The tag of a received message.
    pub tag: u64,
}

/// Completions taken from the queue at a time.
const BATCH: usize = 32;

/// The longest address that a provider may have, in bytes.
const ADDRESS_LIMIT: usize = 256;

/// A reliable-datagram endpoint with one completion queue. The thread that calls [`Endpoint::poll`] makes progress.
#[derive(Debug)]
pub struct Endpoint {
    endpoint: *mut fid_ep,
    queue: *mut fid_cq,
    vector: *mut fid_av,
    /// In an `Option` so that they can outlive an endpoint that refuses to close.
    slots: Option<Slots>,
    fabric: Fabric,
}

impl Endpoint {
    pub(super) fn open(fabric: Fabric, slots: Slots) -> Result<Self, Error> {
        let mut this = Self {
            endpoint: ptr::null_mut(),
            queue: ptr::null_mut(),
            vector: ptr::null_mut(),
            slots: Some(slots),
            fabric,
        };
        this.open_vector()?;
        this.open_queue()?;
        this.open_endpoint()?;
        Ok(this)
    }

    fn open_vector(&mut self) -> Result<(), Error> {
        let mut attributes = fi_av_attr {
            r#type: FI_AV_UNSPEC,
            rx_ctx_bits: 0,
            count: 1,
            ep_per_node: 0,
            name: ptr::null(),
            map_addr: ptr::null_mut(),
            flags: 0,
        };
        // SAFETY: the domain is open; the attributes are complete; the place for the result is ours.
        let result = unsafe {
            let open = (*(*self.fabric.domain).ops).av_open.ok_or(Error::Unusable { missing: "fi_av_open" })?;
            open(self.fabric.domain, &raw mut attributes, &raw mut self.vector, ptr::null_mut())
        };
        self.fabric.check("fi_av_open", result as isize).map(drop)
    }

    fn open_queue(&mut self) -> Result<(), Error> {
        let mut attributes = fi_cq_attr {
            // Every slot may complete before the queue is polled.
            size: self.slots().count().max(BATCH),
            flags: 0,
            format: FI_CQ_FORMAT_TAGGED,
            wait_obj: FI_WAIT_NONE,
            signaling_vector: 0,
            wait_cond: FI_CQ_COND_NONE,
            wait_set: ptr::null_mut(),
            xpu_ctx: ptr::null_mut(),
        };
        // SAFETY: as in `open_vector`.
        let result = unsafe {
            let open = (*(*self.fabric.domain).ops).cq_open.ok_or(Error::Unusable { missing: "fi_cq_open" })?;
            open(self.fabric.domain, &raw mut attributes, &raw mut self.queue, ptr::null_mut())
        };
        self.fabric.check("fi_cq_open", result as isize).map(drop)
    }

    fn open_endpoint(&mut self) -> Result<(), Error> {
        // SAFETY: domain, queue and vector are open, `info` is the one that the domain was opened with; every object
        // starts with its `fid`.
        unsafe {
            let open = (*(*self.fabric.domain).ops).endpoint.ok_or(Error::Unusable { missing: "fi_endpoint" })?;
            let result = open(self.fabric.domain, self.fabric.info, &raw mut self.endpoint, ptr::null_mut());
            self.fabric.check("fi_endpoint", result as isize)?;
            let table = (*self.endpoint).fid.ops;
            let bind = (*table).bind.ok_or(Error::Unusable { missing: "fi_ep_bind" })?;
            let result = bind(self.endpoint.cast(), self.vector.cast(), 0);
            self.fabric.check("fi_ep_bind", result as isize)?;
            let result = bind(self.endpoint.cast(), self.queue.cast(), FI_TRANSMIT | FI_RECV);
            self.fabric.check("fi_ep_bind", result as isize)?;
            let control = (*table).control.ok_or(Error::Unusable { missing: "fi_enable" })?;
            let result = control(self.endpoint.cast(), FI_ENABLE, ptr::null_mut());
            self.fabric.check("fi_enable", result as isize).map(drop)
        }
    }

    /// The domain it belongs to.
    #[must_use]
    pub const fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The buffers, to read those that are idle.
    #[must_use]
    pub fn slots(&self) -> &Slots {
        self.slots.as_ref().expect("taken only by drop")
    }

    /// The bytes of an idle slot, to write.
    ///
    /// # Errors
    /// [`Error::NoSuchSlot`], [`Error::SlotBusy`].
    pub fn bytes_mut(&mut self, slot: usize) -> Result<&mut [u8], Error> {
        self.slots_mut().bytes_mut(slot)
    }

    // Not public: a caller that can exchange the slots for others can free buffers that the provider uses.
    fn slots_mut(&mut self) -> &mut Slots {
        self.slots.as_mut().expect("taken only by drop")
    }

    /// This endpoint's address in the provider's own form, for the peer to [`insert`](Self::insert).
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn address(&self) -> Result<Vec<u8>, Error> {
        let mut address = vec![0u8; ADDRESS_LIMIT];
        let mut length = address.len();
        // SAFETY: the endpoint is open; `address` has room for `length` bytes.
        let result = unsafe {
            let name = (*(*self.endpoint).cm).getname.ok_or(Error::Unusable { missing: "fi_getname" })?;
            name(self.endpoint.cast(), address.as_mut_ptr().cast(), &raw mut length)
        };
        self.fabric.check("fi_getname", result as isize)?;
        address.truncate(length);
        Ok(address)
    }

    /// Makes the peer known that has this address.
    ///
    /// # Errors
    /// [`Error::TooLong`] when no provider has such addresses, [`Error::Call`].
    pub fn insert(&mut self, address: &[u8]) -> Result<PeerAddress, Error> {
        if address.len() > ADDRESS_LIMIT {
            return Err(Error::TooLong { length: address.len(), limit: ADDRESS_LIMIT });
        }
        // The provider reads as many bytes as its addresses have, whatever we were given.
        let mut padded = [0u64; ADDRESS_LIMIT / size_of::<u64>()];
        for (word, chunk) in padded.iter_mut().zip(address.chunks(size_of::<u64>())) {
            let mut bytes = [0; size_of::<u64>()];
            bytes[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(bytes);
        }
        let mut peer = 0;
        // SAFETY: the vector is open; one aligned address with room to spare; a place for one result.
        let result = unsafe {
            let insert = (*(*self.vector).ops).insert.ok_or(Error::Unusable { missing: "fi_av_insert" })?;
            insert(self.vector, padded.as_ptr().cast(), 1, &raw mut peer, 0, ptr::null_mut())
        };
        match self.fabric.check("fi_av_insert", result as isize)? {
            1 => Ok(PeerAddress(peer)),
            _ => Err(Error::of_call(self.fabric.library, "fi_av_insert", -(libc::EINVAL as isize))),
        }
    }

    /// Sends the first `length` bytes of a slot, which is busy until its completion.
    ///
    /// # Errors
    /// [`Error::SlotBusy`], [`Error::NoSuchSlot`], [`Error::TooLong`], [`Error::Call`].
    pub fn send(&mut self, peer: PeerAddress, slot: usize, length: usize, tag: u64) -> Result<Posted, Error> {
        let (buffer, context) = self.slots().claim(slot, length)?;
        // SAFETY: the endpoint is open. The buffer and the context belong to an idle slot; from acceptance to
        // completion nothing else touches them, and they outlive the endpoint.
        let result = unsafe {
            let send = (*(*self.endpoint).tagged).send.ok_or(Error::Unusable { missing: "fi_tsend" })?;
            send(self.endpoint, buffer, length, ptr::null_mut(), peer.0, tag, context)
        };
        self.posted("fi_tsend", result, slot, Operation::Send)
    }

    /// Receives into a slot the next message with exactly this tag; the slot is busy until its completion.
    ///
    /// # Errors
    /// [`Error::SlotBusy`], [`Error::NoSuchSlot`], [`Error::TooLong`], [`Error::Call`].
    pub fn receive(&mut self, peer: PeerAddress, slot: usize, length: usize, tag: u64) -> Result<Posted, Error> {
        let (buffer, context) = self.slots().claim(slot, length)?;
        // SAFETY: as in `send`.
        let result = unsafe {
            let receive = (*(*self.endpoint).tagged).recv.ok_or(Error::Unusable { missing: "fi_trecv" })?;
            receive(self.endpoint, buffer, length, ptr::null_mut(), peer.0, tag, 0, context)
        };
        self.posted("fi_trecv", result, slot, Operation::Receive)
    }

    /// Sends a small message whose bytes are the caller's again at once. It has no completion.
    ///
    /// # Errors
    /// [`Error::TooLong`] above [`Fabric::inject_limit`], [`Error::Call`].
    pub fn inject(&mut self, peer: PeerAddress, bytes: &[u8], tag: u64) -> Result<Posted, Error> {
        let limit = self.fabric.inject_limit();
        if bytes.len() > limit {
            return Err(Error::TooLong { length: bytes.len(), limit });
        }
        // SAFETY: the endpoint is open; an injected buffer is read before the call returns.
        let result = unsafe {
            let inject = (*(*self.endpoint).tagged).inject.ok_or(Error::Unusable { missing: "fi_tinject" })?;
            inject(self.endpoint, bytes.as_ptr().cast(), bytes.len(), peer.0, tag)
        };
        self.accepted("fi_tinject", result)
    }

    fn posted(
        &mut self,
        call: &'static str,
        result: isize,
        slot: usize,
        operation: Operation,
    ) -> Result<Posted, Error> {
        let posted = self.accepted(call, result)?;
        if posted == Posted::Accepted {
            self.slots_mut().begin(slot, operation);
        }
        Ok(posted)
    }

    fn accepted(&self, call: &'static str, result: isize) -> Result<Posted, Error> {
        if result == -(FI_EAGAIN as isize) {
            return Ok(Posted::TryAgain);
        }
        self.fabric.check(call, result).map(|_| Posted::Accepted)
    }

    /// Makes progress, and hands each operation that is done to `on`. Gives how many there were; never waits.
    ///
    /// # Errors
    /// [`Error::Completion`] for an operation that failed, [`Error::Call`].
    pub fn poll(&mut self, mut on: impl FnMut(Completion)) -> Result<usize, Error> {
        let mut entries = mem::MaybeUninit::<[fi_cq_tagged_entry; BATCH]>::uninit();
        // SAFETY: the queue is open, its format is TAGGED, and there is room for BATCH entries of that format.
        let result = unsafe {
            let read = (*(*self.queue).ops).read.ok_or(Error::Unusable { missing: "fi_cq_read" })?;
            read(self.queue, entries.as_mut_ptr().cast(), BATCH)
        };
        if result == -(FI_EAGAIN as isize) {
            return Ok(0);
        }
        if result == -(FI_EAVAIL as isize) {
            return Err(self.failed_operation());
        }
        let count = self.fabric.check("fi_cq_read", result)?.unsigned_abs().min(BATCH);
        for index in 0..count {
            // SAFETY: fi_cq_read wrote `count` entries.
            let entry = unsafe { *entries.as_ptr().cast::<fi_cq_tagged_entry>().add(index) };
            if let Some((slot, operation)) = self.slots_mut().finish(entry.op_context) {
                on(Completion { slot, operation, length: entry.len, tag: entry.tag });
            }
        }
        Ok(count)
    }

    /// The error at the head of the queue.
    fn failed_operation(&mut self) -> Error {
        // SAFETY: all fields are integers or pointers, for which zero is a value. It is as large as any version's.
        let mut entry: fi_cq_err_entry = unsafe { mem::zeroed() };
        // SAFETY: the queue is open; the provider writes at most an entry of the version that we requested.
        let result = unsafe {
            let Some(read) = (*(*self.queue).ops).readerr else { return Error::Unusable { missing: "fi_cq_readerr" } };
            read(self.queue, &raw mut entry, 0)
        };
        if result < 0 {
            return Error::of_call(self.fabric.library, "fi_cq_readerr", result);
        }
        Error::Completion {
            slot: self.slots_mut().finish(entry.op_context).map(|(slot, _)| slot),
            code: entry.err,
            provider_code: entry.prov_errno,
            text: self.fabric.library.describe(entry.err),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: each is NULL or ours and not used again; the endpoint goes first because it is bound to the others.
        let closed = unsafe {
            let closed = close(self.endpoint.cast());
            close(self.queue.cast());
            close(self.vector.cast());
            closed
        };
        if !closed {
            // The provider may still write into the buffers: rather lose them than let them be used for something else.
            mem::forget(self.slots.take());
        }
    }
}
