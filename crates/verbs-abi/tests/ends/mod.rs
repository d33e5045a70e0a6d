//! A device, and ends of connections on it, as a C program has them.

use std::ffi::c_int;
use std::ptr;
use std::time::{Duration, Instant};

use weft_verbs::abi::*;
use weft_verbs::entry::*;

/// How long something that must come is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of each end's memory.
pub(crate) const LENGTH: usize = 256 * 1024;

/// An open device of this host, with a protection domain.
pub(crate) struct Device {
    pub(crate) context: *mut ibv_context,
    pub(crate) domain: *mut ibv_pd,
    pub(crate) gid: ibv_gid,
}

impl Device {
    pub(crate) fn open() -> Self {
        // SAFETY: As programs call them, with what they return.
        unsafe {
            let mut count = 0;
            let list = weft_ibv_get_device_list(&raw mut count);
            assert!(!list.is_null() && count > 0, "this host has no device");
            let context = weft_ibv_open_device(*list);
            assert!(!context.is_null(), "{}", std::io::Error::last_os_error());
            weft_ibv_free_device_list(list);
            let mut gid = ibv_gid::default();
            assert_eq!(weft_ibv_query_gid(context, 1, 0, &raw mut gid), 0);
            let domain = weft_ibv_alloc_pd(context);
            assert!(!domain.is_null());
            Self { context, domain, gid }
        }
    }

    pub(crate) fn operations(&self) -> &ibv_context_ops {
        // SAFETY: An open device.
        unsafe { &(*self.context).ops }
    }

    pub(crate) fn queue(&self, entries: c_int, channel: *mut ibv_comp_channel) -> *mut ibv_cq {
        // SAFETY: An open device, and a channel or NULL.
        let queue = unsafe { weft_ibv_create_cq(self.context, entries, ptr::null_mut(), channel, 0) };
        assert!(!queue.is_null());
        queue
    }

    pub(crate) fn close(self) {
        // SAFETY: Nothing uses them any more.
        unsafe {
            assert_eq!(weft_ibv_dealloc_pd(self.domain), 0);
            assert_eq!(weft_ibv_close_device(self.context), 0);
        }
    }
}

/// One end of a connection, with memory of its own.
pub(crate) struct End<'a> {
    pub(crate) device: &'a Device,
    pub(crate) queue: *mut ibv_cq,
    pub(crate) queue_pair: *mut ibv_qp,
    pub(crate) region: *mut ibv_mr,
    pub(crate) memory: Box<[u8]>,
}

pub(crate) const ALL_RIGHTS: c_int =
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC) as c_int;

impl<'a> End<'a> {
    pub(crate) fn new(device: &'a Device) -> Self {
        Self::with(device, device.queue(256, ptr::null_mut()), ptr::null_mut(), ALL_RIGHTS)
    }

    pub(crate) fn with(device: &'a Device, queue: *mut ibv_cq, shared: *mut ibv_srq, access: c_int) -> Self {
        let mut memory = vec![0u8; LENGTH].into_boxed_slice();
        let cap =
            ibv_qp_cap { max_send_wr: 64, max_recv_wr: 64, max_send_sge: 2, max_recv_sge: 2, max_inline_data: 512 };
        let mut init = ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: queue,
            recv_cq: queue,
            srq: shared,
            cap,
            qp_type: IBV_QPT_RC,
            sq_sig_all: 0,
        };
        // SAFETY: As programs call them; the memory outlives its region.
        unsafe {
            let region = weft_ibv_reg_mr(device.domain, memory.as_mut_ptr().cast(), LENGTH, access);
            assert!(!region.is_null(), "{}", std::io::Error::last_os_error());
            let queue_pair = weft_ibv_create_qp(device.domain, &raw mut init);
            assert!(!queue_pair.is_null(), "{}", std::io::Error::last_os_error());
            Self { device, queue, queue_pair, region, memory }
        }
    }

    pub(crate) fn number(&self) -> u32 {
        // SAFETY: A queue pair.
        unsafe { (*self.queue_pair).qp_num }
    }

    pub(crate) fn key(&self) -> u32 {
        // SAFETY: A region.
        unsafe { (*self.region).lkey }
    }

    pub(crate) fn modify(&self, attr: &mut ibv_qp_attr, mask: c_int) -> c_int {
        // SAFETY: A queue pair, and attributes.
        unsafe { weft_ibv_modify_qp(self.queue_pair, attr, mask) }
    }

    pub(crate) fn initialize(&self) {
        let mut attr = ibv_qp_attr { qp_state: IBV_QPS_INIT, port_num: 1, ..ibv_qp_attr::default() };
        attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        assert_eq!(self.modify(&mut attr, mask), 0);
    }

    pub(crate) fn receive_from(&self, peer: u32) {
        let mut attr = ibv_qp_attr { qp_state: IBV_QPS_RTR, path_mtu: IBV_MTU_1024, ..ibv_qp_attr::default() };
        attr.dest_qp_num = peer;
        attr.max_dest_rd_atomic = 16;
        attr.min_rnr_timer = 12;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        attr.ah_attr.grh.dgid = self.device.gid;
        let path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        let mask = IBV_QP_STATE | path | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        assert_eq!(self.modify(&mut attr, mask), 0);
    }

    pub(crate) fn send_with(&self, timeout: u8) {
        let mut attr = ibv_qp_attr { qp_state: IBV_QPS_RTS, timeout, rnr_retry: 7, ..ibv_qp_attr::default() };
        attr.max_rd_atomic = 16;
        let depths = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        assert_eq!(self.modify(&mut attr, IBV_QP_STATE | IBV_QP_SQ_PSN | depths), 0);
    }

    pub(crate) fn entry(&self, offset: usize, length: usize) -> ibv_sge {
        let addr = self.memory.as_ptr().addr() as u64 + offset as u64;
        ibv_sge { addr, length: length as u32, lkey: self.key() }
    }

    pub(crate) fn post_receive(&self, id: u64, mut entry: ibv_sge) -> c_int {
        let mut request = ibv_recv_wr { wr_id: id, next: ptr::null_mut(), sg_list: &raw mut entry, num_sge: 1 };
        let mut bad = ptr::null_mut();
        // SAFETY: A queue pair and a request.
        unsafe { (self.device.operations().post_recv)(self.queue_pair, &raw mut request, &raw mut bad) }
    }

    /// A request for one entry, signaled.
    pub(crate) fn request(id: u64, opcode: c_int) -> ibv_send_wr {
        ibv_send_wr {
            wr_id: id,
            next: ptr::null_mut(),
            sg_list: ptr::null_mut(),
            num_sge: 1,
            opcode,
            send_flags: IBV_SEND_SIGNALED,
            imm_data: 0,
            wr: ibv_send_wr_remote { remote_addr: 0, compare_add: 0, swap: 0, rkey: 0 },
            _rest: [0; 7],
        }
    }

    pub(crate) fn post(&self, mut request: ibv_send_wr, mut entry: ibv_sge) -> c_int {
        request.sg_list = &raw mut entry;
        let mut bad = ptr::null_mut();
        // SAFETY: A queue pair and a request.
        let result = unsafe { (self.device.operations().post_send)(self.queue_pair, &raw mut request, &raw mut bad) };
        assert_eq!(bad.is_null(), result == 0, "the one that was not taken is told");
        result
    }

    /// The same of a request that names memory of the peer.
    pub(crate) fn post_to(&self, id: u64, opcode: c_int, entry: ibv_sge, to: (u64, u32)) -> c_int {
        let mut request = Self::request(id, opcode);
        request.wr.remote_addr = to.0;
        // `rdma.rkey` lies where `compare_add` begins.
        let [a, b, c, d] = to.1.to_ne_bytes();
        request.wr.compare_add = u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]);
        self.post(request, entry)
    }

    pub(crate) fn remote(&self, offset: usize) -> (u64, u32) {
        (self.memory.as_ptr().addr() as u64 + offset as u64, self.key())
    }

    pub(crate) fn poll(&self) -> Option<ibv_wc> {
        let mut completion = ibv_wc::default();
        // SAFETY: A completion queue, and room for one completion.
        match unsafe { (self.device.operations().poll_cq)(self.queue, 1, &raw mut completion) } {
            0 => None,
            1 => Some(completion),
            other => panic!("poll_cq returned {other}"),
        }
    }

    pub(crate) fn complete(&self) -> ibv_wc {
        let began = Instant::now();
        loop {
            if let Some(completion) = self.poll() {
                return completion;
            }
            assert!(began.elapsed() < PATIENCE, "no completion comes");
        }
    }

    /// The next completion, which must be this.
    pub(crate) fn expect(&self, id: u64, status: c_int) -> ibv_wc {
        let completion = self.complete();
        assert_eq!((completion.wr_id, completion.status), (id, status), "{completion:?}");
        assert_eq!(completion.qp_num, self.number());
        completion
    }

    pub(crate) fn bytes(&self, offset: usize, length: usize) -> Vec<u8> {
        // The NIC writes there too, so nothing is assumed of the bytes.
        // SAFETY: Inside the memory.
        (offset..offset + length).map(|at| unsafe { self.memory.as_ptr().add(at).read_volatile() }).collect()
    }

    pub(crate) fn state(&self) -> c_int {
        let mut attr = ibv_qp_attr::default();
        // SAFETY: A queue pair.
        assert_eq!(unsafe { weft_ibv_query_qp(self.queue_pair, &raw mut attr, 0, ptr::null_mut()) }, 0);
        attr.qp_state
    }

    /// All but the completion queue.
    pub(crate) fn destroy(self) {
        // SAFETY: Nothing uses them any more.
        unsafe {
            assert_eq!(weft_ibv_destroy_qp(self.queue_pair), 0);
            assert_eq!(weft_ibv_dereg_mr(self.region), 0);
        }
    }

    pub(crate) fn destroy_all(self) {
        let queue = self.queue;
        self.destroy();
        // SAFETY: Nothing uses it any more.
        assert_eq!(unsafe { weft_ibv_destroy_cq(queue) }, 0);
    }
}

pub(crate) fn connect(one: &End<'_>, other: &End<'_>) {
    for (end, peer) in [(one, other), (other, one)] {
        end.initialize();
        end.receive_from(peer.number());
        end.send_with(14);
    }
}

pub(crate) fn fill(end: &mut End<'_>, offset: usize, bytes: &[u8]) {
    end.memory[offset..offset + bytes.len()].copy_from_slice(bytes);
}
