//! The side that sends the request.

use weft_wire::mpa::{Enhanced, MarkerSpacing, StartHeader, StartKind};

use super::errors::Framing;
use super::frame::{Body, Content, build, read_body, read_header};
use super::record::{self, Record};
use super::{
    Agreement, ENHANCED_REVISION, HIGHEST_REVISION, Incompatible, Malformed, NOT_NEGOTIATED, Offer, ReadyKind,
    ReadyKinds, Rejection, Role, StartFailure, StartFrame, StartMisuse, Step,
};

/// An initiator that has sent its request, and waits for the reply.
#[derive(Debug)]
pub struct Initiator {
    offer: Offer,
}

impl Initiator {
    /// Writes the request, which the caller sends at once. `private_data` is the application's.
    ///
    /// # Errors
    /// The offer or the private data cannot be sent.
    pub fn start(offer: Offer, private_data: &[u8]) -> Result<(Self, StartFrame), StartMisuse> {
        if offer.revision > HIGHEST_REVISION {
            return Err(StartMisuse::UnknownRevision(offer.revision));
        }
        if let Some(kinds) = offer.ready_to_receive {
            if offer.revision != ENHANCED_REVISION {
                return Err(StartMisuse::PeerToPeerNeedsRevision2 { revision: offer.revision });
            }
            if !kinds.any() {
                return Err(StartMisuse::NoReadyKind);
            }
        }
        let content = Content {
            kind: StartKind::Request,
            reject: false,
            revision: offer.revision,
            crc: offer.crc,
            // RFC 6581 section 10: a request is enhanced only where something of it is wanted. Without that, the
            // request is of revision 1.
            enhanced: (offer.revision == ENHANCED_REVISION).then(|| depths_and_model(&offer)),
            record: offer.extensions.any().then(|| record_of(&offer)),
        };
        let frame = build(&offer, &content, private_data)?;
        Ok((Self { offer }, frame))
    }

    /// Parses all bytes that have come. When the reply is there, gives what is agreed and how many bytes the reply was.
    #[must_use]
    pub fn handle(self, bytes: &[u8]) -> Step<Self, (Agreement, usize)> {
        match self.read(bytes) {
            Ok(Some(done)) => Step::Done(done),
            Ok(None) => Step::More(self),
            Err(failure) => Step::Failed(failure),
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<Option<(Agreement, usize)>, StartFailure> {
        let Some(header) = read_header(StartKind::Reply, bytes).map_err(StartFailure::Malformed)? else {
            return Ok(None);
        };
        // RFC 5044 section 7.1.1: a revision that this side cannot speak ends the connection. A rejection is one in any
        // revision.
        if header.revision > self.offer.revision && !header.reject {
            let (received, highest) = (header.revision, self.offer.revision);
            return Err(StartFailure::Incompatible(Incompatible::Revision { received, highest }));
        }
        let Some(body) = read_body(&header, bytes).map_err(StartFailure::Malformed)? else { return Ok(None) };
        if header.reject {
            return Err(StartFailure::Rejected(Box::new(self.rejection(&header, &body))));
        }
        Ok(Some((self.agree(&header, &body)?, body.length)))
    }

    fn rejection(&self, header: &StartHeader, body: &Body<'_>) -> Rejection {
        let (ird, ord) = body.enhanced.map_or((NOT_NEGOTIATED, NOT_NEGOTIATED), |word| (word.ird, word.ord));
        Rejection {
            revision: header.revision,
            ird,
            ord,
            private_data: body.data.into(),
            asked_for_markers: self.offer.receive_markers.is_some(),
        }
    }

    fn agree(&self, header: &StartHeader, body: &Body<'_>) -> Result<Agreement, StartFailure> {
        let (private_data, theirs) = self.take_record(header, body);
        let extensions = theirs.extensions.and(self.offer.extensions);
        // Both records have a spacing other than the standard's (RFC 5044 section 4.3 knows only 512 bytes).
        let spacing = |said| if extensions.marker_spacing { said } else { MarkerSpacing::Standard };
        let kept = |wanted| if wanted == theirs.kept { wanted } else { MarkerSpacing::Standard };
        let receive_markers = self.offer.receive_markers.map(|wanted| spacing(kept(wanted)));
        // RFC 5044 section 7.1.1: markers as the receiver says, CRC when either side says.
        let send_markers = header.markers.then(|| spacing(theirs.wanted));
        let framing = Framing { send_markers, crc: self.offer.crc || header.crc };
        if self.offer.revision == ENHANCED_REVISION && header.revision == ENHANCED_REVISION && body.enhanced.is_none() {
            // RFC 6581 section 10: the reply to an enhanced request is enhanced.
            return Err(StartFailure::Malformed(Malformed::NotEnhanced));
        }
        let ready_to_receive = self.choose_opening(body.enhanced.as_ref(), framing)?;
        let (ird, ord) = self.settle_depths(body.enhanced.as_ref(), ready_to_receive, framing)?;
        Ok(Agreement {
            role: Role::Initiator,
            revision: header.revision,
            send_markers,
            receive_markers,
            crc: framing.crc,
            ird,
            ord,
            peer_ird: body.enhanced.map_or(NOT_NEGOTIATED, |word| word.ird),
            peer_ord: body.enhanced.map_or(NOT_NEGOTIATED, |word| word.ord),
            ready_to_receive,
            extensions,
            private_data: private_data.into(),
        })
    }

    /// RFC 6581 section 9.2: the initiator opens with a kind that the reply names. Where there is none, or only one
    /// side wants peer-to-peer, it must say so in a Terminate.
    fn choose_opening(&self, reply: Option<&Enhanced>, framing: Framing) -> Result<Option<ReadyKind>, StartFailure> {
        let ours = self.offer.ready_to_receive;
        let theirs = reply.and_then(kinds);
        match (ours, theirs) {
            (None, None) => Ok(None),
            (Some(ours), Some(theirs)) if ours.and(theirs).any() => Ok(ours.and(theirs).cheapest()),
            _ => Err(StartFailure::NoReadyToReceive { ours, theirs, framing }),
        }
    }

    /// RFC 6581 section 9.1, the initiator's half.
    fn settle_depths(
        &self,
        reply: Option<&Enhanced>,
        opening: Option<ReadyKind>,
        framing: Framing,
    ) -> Result<(u16, u16), StartFailure> {
        let negotiated = reply.filter(|_| self.offer.negotiate_depths);
        let (most_ird, most_ord) = self.offer.depths();
        let ird = match negotiated.map_or(NOT_NEGOTIATED, |reply| reply.ord) {
            NOT_NEGOTIATED => self.offer.ird,
            // The IRD is at least the responder's ORD, or there is a Terminate.
            needed if needed > most_ird => {
                return Err(StartFailure::NotEnoughResources { needed, limit: most_ird, framing });
            }
            needed => needed,
        };
        let ord = match negotiated.map_or(NOT_NEGOTIATED, |reply| reply.ird) {
            NOT_NEGOTIATED => self.offer.ord,
            // The ORD is at most the responder's IRD.
            responder_ird => most_ord.min(responder_ird),
        };
        // A read that opens the connection may be sent, even where neither application wants reads.
        Ok((ird, if opening == Some(ReadyKind::Read) { ord.max(1) } else { ord }))
    }

    fn take_record<'a>(&self, header: &StartHeader, body: &Body<'a>) -> (&'a [u8], Record) {
        // A side that sent no record gets none: bytes in the form of one are the application's.
        if !self.offer.extensions.any() {
            return (body.data, Record::default());
        }
        let (data, theirs) = record::split(StartKind::Reply, body.data, header.private_length);
        (data, theirs.unwrap_or_default())
    }
}

/// The record of an initiator.
fn record_of(offer: &Offer) -> Record {
    let extensions = offer.extensions;
    let wanted = offer.receive_markers.filter(|_| extensions.marker_spacing).unwrap_or_default();
    Record { extensions, wanted, kept: MarkerSpacing::Standard }
}

/// The word of an initiator.
fn depths_and_model(offer: &Offer) -> Enhanced {
    let (ird, ord) = if offer.negotiate_depths { offer.depths() } else { (NOT_NEGOTIATED, NOT_NEGOTIATED) };
    // RFC 6581 section 9.2: without A, the flags B, C and D are zero.
    let kinds = offer.ready_to_receive.unwrap_or_default();
    Enhanced {
        ird,
        ord,
        peer_to_peer: offer.ready_to_receive.is_some(),
        rtr_send: kinds.send,
        rtr_write: kinds.write,
        rtr_read: kinds.read,
    }
}

/// The kinds that a word names. RFC 6581 section 9.2: without A, the flags B, C and D are ignored.
pub(super) fn kinds(word: &Enhanced) -> Option<ReadyKinds> {
    word.peer_to_peer.then_some(ReadyKinds { send: word.rtr_send, write: word.rtr_write, read: word.rtr_read })
}
