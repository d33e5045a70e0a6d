//! The set-up: one record asks, one answers.

use weft_base::{DomainId, Port, PortError};
use weft_nic::lower::{StartStep, Terms};
use weft_nic::offer::Role;
use weft_nic::{ConnectionError, ConnectionInfo, LowerInfo, LowerStartError, Offer, StartError, StartReason};
use weft_rdmap::{LowerTraits, StreamConfig};

use super::record::{Kind, Record};
use super::{Disorder, Phase, Shuffled};

/// The most private data, in bytes.
pub(super) const MOST_PRIVATE_DATA: usize = 512;
/// Bytes before the private data: IRD and ORD.
const FIXED: usize = 4;

/// What one end says of itself.
#[derive(Clone, Debug)]
pub struct Hello {
    pub(super) ird: u16,
    pub(super) ord: u16,
    pub(super) private_data: Vec<u8>,
}

impl Hello {
    pub(super) fn new(offer: &Offer, private_data: &[u8]) -> Self {
        Self { ird: offer.ird, ord: offer.ord, private_data: private_data.to_vec() }
    }

    pub(super) fn emit(&self) -> Vec<u8> {
        let ([i0, i1], [o0, o1]) = (self.ird.to_be_bytes(), self.ord.to_be_bytes());
        let mut bytes = vec![i0, i1, o0, o1];
        bytes.extend(&self.private_data);
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[i0, i1, o0, o1], private_data) = bytes.split_first_chunk::<FIXED>()?;
        Some(Self {
            ird: u16::from_be_bytes([i0, i1]),
            ord: u16::from_be_bytes([o0, o1]),
            private_data: private_data.to_vec(),
        })
    }
}

impl Shuffled {
    /// Takes the record that the set-up waits for, if it has come.
    pub(super) fn read_start(&mut self) -> Result<StartStep, ConnectionError> {
        let closed = failed(StartReason::ClosedEarly, "the peer closed the connection before it had answered");
        if matches!(self.phase, Phase::Deciding { .. }) {
            return if self.wire.is_over { Err(closed) } else { Ok(StartStep::Idle) };
        }
        match self.wire.next() {
            Ok(Some(record)) => self.handle_start(&record),
            Ok(None) if self.wire.is_over => Err(closed),
            Ok(None) => Ok(StartStep::Idle),
            Err(_) => Err(ConnectionError::Port(PortError::Reset)),
        }
    }

    fn handle_start(&mut self, record: &Record) -> Result<StartStep, ConnectionError> {
        let hello = Hello::parse(&record.body).ok_or(ConnectionError::Port(PortError::Reset))?;
        match (&self.phase, record.kind) {
            (Phase::Requesting { ours }, Kind::Accept) => {
                let terms = self.agree(Role::Initiator, ours, &hello);
                self.phase = Phase::Agreed;
                Ok(StartStep::Ready(terms))
            }
            (Phase::Requesting { .. }, Kind::Reject) => {
                let reason = StartReason::Rejected { private_data: hello.private_data.into() };
                Err(failed(reason, "the peer does not want the connection"))
            }
            (Phase::Responding { offer }, Kind::Request) => {
                self.phase = Phase::Deciding { offer: *offer, theirs: hello };
                Ok(StartStep::Request)
            }
            _ => Err(ConnectionError::Port(PortError::Reset)),
        }
    }

    /// What both have agreed on: no more requests in flight than the other end answers.
    pub(super) fn agree(&self, role: Role, ours: &Hello, theirs: &Hello) -> Box<Terms> {
        let ord = ours.ord.min(theirs.ird);
        let remote = self.wire.port.remote_address();
        let info = ConnectionInfo {
            role,
            local: self.wire.port.local_address().unwrap_or(remote),
            remote,
            ird: ours.ird,
            ord,
            peer_ird: theirs.ird,
            peer_ord: theirs.ord,
            atomics_and_immediates: true,
            fences: false,
            private_data: theirs.private_data.clone(),
            lower: LowerInfo::Other("shuffle"),
        };
        Box::new(Terms { stream: stream_config(role, ours.ird, ord, &self.disorder), info })
    }
}

fn failed(reason: StartReason, words: &'static str) -> ConnectionError {
    ConnectionError::Start(StartError { reason, lower: LowerStartError::Other(words) })
}

fn stream_config(role: Role, ird: u16, ord: u16, disorder: &Disorder) -> StreamConfig {
    StreamConfig {
        domain: DomainId::NONE,
        role: match role {
            Role::Initiator => weft_rdmap::Role::Initiator,
            Role::Responder => weft_rdmap::Role::Responder,
        },
        send_depth: 0,
        receive_depth: disorder.receive_depth,
        ird,
        ord,
        extensions: true,
        receipts: false,
        reorder_limit: disorder.reorder_limit,
        ordered_writes: false,
        lower: LowerTraits { placements: 1, cuts_again: true, holds_back: true },
        ready_to_receive: None,
        responder_waits: false,
    }
}
