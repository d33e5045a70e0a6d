//! Attributes: what `ibv_modify_qp` takes, by the tables of the InfiniBand architecture (volume 1, section 11.2.5.2) as
//! far as this library has what they name. The states are in [`super::state`].

use core::ffi::c_int;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::net::{IpAddr, Ipv6Addr};

use weft::verbs::QueuePair as Connection;

use super::QueuePair;
use super::state::{rule, takes_messages};
use crate::abi::*;
use crate::border::lock;
use crate::device::Presentation;
use crate::errno::Errno;

/// The other end of a connection, and this one, as the rendezvous names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) own_address: IpAddr,
    pub(crate) own_number: u32,
    pub(crate) address: IpAddr,
    pub(crate) number: u32,
    pub(crate) receive_psn: u32,
    /// Known once the queue pair may send.
    pub(crate) send_psn: Option<u32>,
    pub(crate) kind: u8,
    pub(crate) path_mtu: u8,
    /// `min_rnr_timer`: how long the other end waits before it sends again what found no receive here. 0 to 31.
    pub(crate) rnr_timer: u8,
    pub(crate) initiator_depth: u8,
    pub(crate) responder_resources: u8,
}

/// With this many requests under way a program wants throughput: requests wait for each other.
const BATCHES_FROM: usize = 8;

/// The largest number of a timer for receives that are missing.
const RNR_TIMERS: u8 = 31;

/// What a change of attributes asks to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// Nothing.
    Nothing,
    /// There is somebody to connect to.
    Connect,
    /// The connection ends, and what is posted is given up without a completion.
    Reset,
    /// The connection ends, and what is posted is flushed.
    Fail,
}

impl QueuePair {
    /// Changes its attributes.
    ///
    /// # Errors
    /// The change is none that its state allows, or a value is none that there is. Nothing has changed then.
    pub(crate) fn modify(&self, change: &ibv_qp_attr, mask: c_int) -> Result<Changed, Errno> {
        let mut attributes = lock(&self.attributes);
        let from = self.state();
        if mask & IBV_QP_CUR_STATE != 0 && change.cur_qp_state != from {
            return Err(Errno::INVALID);
        }
        let to = if mask & IBV_QP_STATE != 0 { change.qp_state } else { from };
        rule(self.parts.kind, from, to).ok_or(Errno::INVALID)?.check(mask)?;
        self.check_values(change, mask)?;
        self.change_state(from, to)?;
        if to == IBV_QPS_RESET {
            *attributes = ibv_qp_attr { cap: self.parts.cap, ..ibv_qp_attr::default() };
        } else {
            copy(&mut attributes, change, mask);
        }
        self.peer_number.store(attributes.dest_qp_num, Ordering::Relaxed);
        drop(attributes);
        if mask & (IBV_QP_ACCESS_FLAGS | IBV_QP_RNR_RETRY) != 0 {
            self.apply_terms();
        }
        if (from, to) == (IBV_QPS_RTS, IBV_QPS_SQD) && change.en_sqd_async_notify != 0 {
            self.push_event(IBV_EVENT_SQ_DRAINED);
        }
        Ok(match (from, to) {
            (IBV_QPS_RESET, IBV_QPS_RESET) => Changed::Nothing,
            (_, IBV_QPS_RESET) => Changed::Reset,
            (_, IBV_QPS_ERR) => Changed::Fail,
            (_, IBV_QPS_RTR) => Changed::Connect,
            _ => Changed::Nothing,
        })
    }

    /// Work may have failed since `from` was the state: a program gets it out of `ERR` by `RESET` alone.
    fn change_state(&self, from: c_int, to: c_int) -> Result<(), Errno> {
        if matches!(to, IBV_QPS_RESET | IBV_QPS_ERR) {
            self.state.store(to, Ordering::Release);
            return Ok(());
        }
        let changed = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        changed.map(drop).map_err(|_| Errno::INVALID)
    }

    fn check_values(&self, change: &ibv_qp_attr, mask: c_int) -> Result<(), Errno> {
        let says = |flag: c_int| mask & flag != 0;
        let is_wrong = says(IBV_QP_PORT) && change.port_num != 1
            || says(IBV_QP_PKEY_INDEX) && change.pkey_index != 0
            || says(IBV_QP_PATH_MTU) && !(1..=self.parts.largest_mtu).contains(&change.path_mtu)
            || says(IBV_QP_DEST_QPN) && change.dest_qp_num > 0xff_ffff
            || says(IBV_QP_MAX_QP_RD_ATOMIC) && change.max_rd_atomic > crate::limits::READS
            || says(IBV_QP_MAX_DEST_RD_ATOMIC) && change.max_dest_rd_atomic > crate::limits::READS
            || says(IBV_QP_TIMEOUT) && change.timeout > 31
            || says(IBV_QP_RETRY_CNT) && change.retry_cnt > 7
            || says(IBV_QP_RNR_RETRY) && change.rnr_retry > 7
            || says(IBV_QP_AV) && self.peer_address(&change.ah_attr).is_none();
        if is_wrong { Err(Errno::INVALID) } else { Ok(()) }
    }

    /// The addresses that an address vector names: the peer's, and this end's.
    fn peer_address(&self, vector: &ibv_ah_attr) -> Option<(IpAddr, IpAddr)> {
        if vector.port_num > 1 {
            return None;
        }
        if vector.is_global == 0 {
            let own = self.own_address(0)?;
            return Some((Presentation::chosen().host(own, vector.dlid)?, own));
        }
        let own = self.own_address(vector.grh.sgid_index.into())?;
        let peer = Ipv6Addr::from(vector.grh.dgid.octets());
        if peer.is_unspecified() || peer.is_unicast_link_local() {
            return None;
        }
        let peer = peer.to_canonical();
        (peer.is_ipv4() == own.is_ipv4()).then_some((peer, own))
    }

    /// The address of an index of the table of GIDs: indices 1 to 3 are the first entry where they are free.
    fn own_address(&self, index: usize) -> Option<IpAddr> {
        crate::device::at_index(&self.parts.addresses, index).copied()
    }

    /// Has its connection keep to the attributes as they are now.
    fn apply_terms(&self) {
        let post = lock(&self.post);
        let connections = [&post.connection, &post.echo].into_iter().flatten();
        connections.for_each(|connection| self.apply_terms_to(connection, post.peer_timer));
    }

    /// What peers may do, and how long they may be without a receive, by the number of the peer's timer.
    pub(super) fn apply_terms_to(&self, connection: &Connection, peer_timer: u8) {
        let attributes = *lock(&self.attributes);
        connection.set_peer_rights(crate::memory::peer_rights(attributes.qp_access_flags));
        connection.batch_doorbells(BATCHES_FROM);
        connection.set_receive_wait(receive_wait(attributes.rnr_retry, peer_timer));
    }

    /// Its attributes.
    pub(crate) fn attributes(&self) -> ibv_qp_attr {
        let mut attributes = *lock(&self.attributes);
        attributes.qp_state = self.state();
        attributes.cur_qp_state = attributes.qp_state;
        attributes.path_mig_state = IBV_MIG_MIGRATED;
        attributes
    }

    /// Whether messages may come.
    pub(crate) fn is_receiving(&self) -> bool {
        takes_messages(self.state())
    }

    /// The ends of its connection; `None` before it was told of the other one.
    pub(crate) fn target(&self) -> Option<Target> {
        let attributes = self.attributes();
        let (address, own_address) = self.peer_address(&attributes.ah_attr)?;
        let may_send = matches!(attributes.qp_state, IBV_QPS_RTS | IBV_QPS_SQD | IBV_QPS_SQE);
        Some(Target {
            own_address,
            own_number: self.number(),
            address,
            number: attributes.dest_qp_num,
            receive_psn: attributes.rq_psn & 0xff_ffff,
            send_psn: may_send.then_some(attributes.sq_psn & 0xff_ffff),
            kind: self.parts.kind as u8,
            path_mtu: attributes.path_mtu as u8,
            rnr_timer: attributes.min_rnr_timer & RNR_TIMERS,
            initiator_depth: attributes.max_rd_atomic,
            responder_resources: attributes.max_dest_rd_atomic,
        })
    }
}

/// How long a message waits for a receive of the peer: the peer's timer for the first attempt and for each of the
/// `retries`, at least 100 ms. `None` for 7 retries: without a limit.
fn receive_wait(retries: u8, timer: u8) -> Option<Duration> {
    const SHORTEST: Duration = Duration::from_millis(100);
    (retries < 7).then(|| (rnr_timer(timer) * (u32::from(retries) + 1)).max(SHORTEST))
}

/// The time that a number of the timer for receives that are missing stands for (InfiniBand architecture, volume 1,
/// section 9.7.5.2.8, table 45).
fn rnr_timer(number: u8) -> Duration {
    let microseconds = match number & RNR_TIMERS {
        0 => 655_360,
        1 => 10,
        even if even % 2 == 0 => 10 << (even / 2),
        odd => 30 << ((odd - 3) / 2),
    };
    Duration::from_micros(microseconds)
}

/// Copies the fields that the mask names.
fn copy(to: &mut ibv_qp_attr, from: &ibv_qp_attr, mask: c_int) {
    macro_rules! fields {
        ($($flag:ident: $($field:ident),+;)*) => {
            $(if mask & $flag != 0 { $(to.$field = from.$field;)+ })*
        };
    }
    fields! {
        IBV_QP_ACCESS_FLAGS: qp_access_flags;
        IBV_QP_PKEY_INDEX: pkey_index;
        IBV_QP_PORT: port_num;
        IBV_QP_AV: ah_attr;
        IBV_QP_PATH_MTU: path_mtu;
        IBV_QP_TIMEOUT: timeout;
        IBV_QP_RETRY_CNT: retry_cnt;
        IBV_QP_RNR_RETRY: rnr_retry;
        IBV_QP_RQ_PSN: rq_psn;
        IBV_QP_SQ_PSN: sq_psn;
        IBV_QP_MAX_QP_RD_ATOMIC: max_rd_atomic;
        IBV_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic;
        IBV_QP_MIN_RNR_TIMER: min_rnr_timer;
        IBV_QP_DEST_QPN: dest_qp_num;
        IBV_QP_EN_SQD_ASYNC_NOTIFY: en_sqd_async_notify;
        IBV_QP_ALT_PATH: alt_ah_attr, alt_pkey_index, alt_port_num, alt_timeout;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_receives_are_waited_for_as_the_architecture_says() {
        let listed = [(0, 655_360), (1, 10), (2, 20), (3, 30), (4, 40), (5, 60), (12, 640), (13, 960), (31, 491_520)];
        for (number, microseconds) in listed {
            assert_eq!(rnr_timer(number), Duration::from_micros(microseconds), "{number}");
        }
        assert_eq!(receive_wait(7, 12), None);
        assert_eq!(receive_wait(0, 1), Some(Duration::from_millis(100)), "at least");
        assert_eq!(receive_wait(0, 31), Some(Duration::from_micros(491_520)), "no retry: one attempt");
        assert_eq!(receive_wait(6, 31), Some(Duration::from_micros(7 * 491_520)));
    }
}
