//! The side that receives the request.

use weft_wire::mpa::{Enhanced, MarkerSpacing, StartHeader, StartKind};

use super::frame::{Body, Content, build, read_body, read_header};
use super::initiator::kinds;
use super::record::{self, Record};
use super::{
    Agreement, Extensions, HIGHEST_REVISION, Incompatible, NOT_NEGOTIATED, Offer, ReadyKind, ReadyKinds, Role,
    StartFailure, StartFrame, StartMisuse, Step,
};

/// A responder that waits for the request.
#[derive(Debug)]
pub struct Responder {
    offer: Offer,
}

impl Responder {
    /// Waits for a request, to answer it by this offer.
    #[must_use]
    pub fn new(offer: Offer) -> Self {
        Self { offer: Offer { revision: offer.revision.min(HIGHEST_REVISION), ..offer } }
    }

    /// Parses all bytes that have come. When the request is there, gives it and how many bytes it was.
    #[must_use]
    pub fn handle(self, bytes: &[u8]) -> Step<Self, (Request, usize)> {
        match self.read(bytes) {
            Ok(Some(done)) => Step::Done(done),
            Ok(None) => Step::More(self),
            Err(failure) => Step::Failed(failure),
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<Option<(Request, usize)>, StartFailure> {
        let Some(header) = read_header(StartKind::Request, bytes).map_err(StartFailure::Malformed)? else {
            return Ok(None);
        };
        // RFC 5044 section 7.1.1: a revision that this side cannot speak ends the connection.
        if header.revision > self.offer.revision {
            let (received, highest) = (header.revision, self.offer.revision);
            return Err(StartFailure::Incompatible(Incompatible::Revision { received, highest }));
        }
        let Some(body) = read_body(&header, bytes).map_err(StartFailure::Malformed)? else { return Ok(None) };
        let request = Request::new(self.offer, &header, &body);
        match (request.peer_to_peer(), self.offer.ready_to_receive) {
            (Some(theirs), None) => Err(request.refuse_peer_to_peer(theirs)),
            _ => Ok(Some((request, body.length))),
        }
    }
}

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Request {
    offer: Offer,
    header: StartHeader,
    enhanced: Option<Enhanced>,
    record: Option<Record>,
    private_data: Box<[u8]>,
}

impl Request {
    fn new(offer: Offer, header: &StartHeader, body: &Body<'_>) -> Self {
        let (data, record) = record::split(StartKind::Request, body.data, header.private_length);
        Self { offer, header: *header, enhanced: body.enhanced, record, private_data: data.into() }
    }

    /// The private data of the initiator's application.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// The revision of the request.
    #[must_use]
    pub const fn revision(&self) -> u8 {
        self.header.revision
    }

    /// The IRD that the initiator announced, [`NOT_NEGOTIATED`] when it announced none. RFC 6581 section 9.1: to be
    /// shown to the application.
    #[must_use]
    pub fn peer_ird(&self) -> u16 {
        self.enhanced.map_or(NOT_NEGOTIATED, |word| word.ird)
    }

    /// The ORD that the initiator announced, [`NOT_NEGOTIATED`] when it announced none. RFC 6581 section 9.1: to be
    /// shown to the application.
    #[must_use]
    pub fn peer_ord(&self) -> u16 {
        self.enhanced.map_or(NOT_NEGOTIATED, |word| word.ord)
    }

    /// Whether the initiator wants markers in what it receives.
    #[must_use]
    pub const fn wants_markers(&self) -> bool {
        self.header.markers
    }

    /// Whether the initiator wants CRCs.
    #[must_use]
    pub const fn wants_crc(&self) -> bool {
        self.header.crc
    }

    /// Whether the initiator requests peer-to-peer, and which kinds of message it can open with.
    #[must_use]
    pub fn peer_to_peer(&self) -> Option<ReadyKinds> {
        self.enhanced.as_ref().and_then(kinds)
    }

    /// What both sides allow.
    #[must_use]
    pub fn extensions(&self) -> Extensions {
        self.record.unwrap_or_default().extensions.and(self.offer.extensions)
    }

    /// The most private data that the application can accept with, in bytes: what IRD and ORD and the record leave.
    #[must_use]
    pub fn private_data_limit(&self) -> usize {
        self.offer.room(self.enhanced.is_some(), self.reply_record().is_some())
    }

    /// Sets other limits than those of the offer, for this connection alone.
    #[must_use]
    pub fn with_depths(mut self, ird: u16, ord: u16) -> Self {
        self.offer.ird = ird;
        self.offer.ord = ord;
        self
    }

    /// Accepts, with private data of the application. Gives what is agreed, and the reply, which the caller sends.
    ///
    /// # Errors
    /// The private data does not fit; the request is given back.
    pub fn accept(self, private_data: &[u8]) -> Result<(Agreement, StartFrame), (Self, StartMisuse)> {
        let opening = self.choose_opening();
        let (ird, ord) = self.settle_depths(opening);
        let enhanced = self.enhanced.map(|request| self.answer(&request, opening, ird, ord));
        match self.build(false, enhanced, private_data) {
            Ok(frame) => Ok((self.agree(opening, ird, ord), frame)),
            Err(misuse) => Err((self, misuse)),
        }
    }

    /// Rejects, with private data of the application. The reply, which the caller sends, also says which IRD and ORD
    /// this side would have had. RFC 5044 section 7.1.2, rule 2: MPA is over then; the connection may be closed, or
    /// used for something else.
    ///
    /// # Errors
    /// The private data does not fit; the request is given back.
    pub fn reject(self, private_data: &[u8]) -> Result<StartFrame, (Self, StartMisuse)> {
        self.rejection(private_data).map_err(|misuse| (self, misuse))
    }

    fn rejection(&self, private_data: &[u8]) -> Result<StartFrame, StartMisuse> {
        // RFC 6581 section 9.1: the ORD of a rejection is what the initiator's IRD should have been.
        let (ird, ord) = self.offer.depths();
        let enhanced = self.enhanced.map(|request| self.answer(&request, None, ird, ord));
        self.build(true, enhanced, private_data)
    }

    fn refuse_peer_to_peer(&self, theirs: ReadyKinds) -> StartFailure {
        let reply = Box::new(self.rejection(&[]).unwrap_or_default());
        StartFailure::Incompatible(Incompatible::PeerToPeer { theirs, reply })
    }

    /// A reply in the revision of the request, enhanced if the request was (RFC 6581 section 10).
    fn build(&self, reject: bool, enhanced: Option<Enhanced>, private_data: &[u8]) -> Result<StartFrame, StartMisuse> {
        let content = Content {
            kind: StartKind::Reply,
            reject,
            revision: self.header.revision,
            crc: self.crc(),
            enhanced,
            record: self.reply_record().filter(|_| !reject),
        };
        build(&self.offer, &content, private_data)
    }

    fn agree(self, ready_to_receive: Option<ReadyKind>, ird: u16, ord: u16) -> Agreement {
        Agreement {
            role: Role::Responder,
            revision: self.header.revision,
            // RFC 5044 section 7.1.1: markers as the receiver says.
            send_markers: self.send_markers(),
            receive_markers: self.receive_markers(),
            crc: self.crc(),
            ird,
            ord,
            peer_ird: self.peer_ird(),
            peer_ord: self.peer_ord(),
            ready_to_receive,
            extensions: self.extensions(),
            private_data: self.private_data,
        }
    }

    /// RFC 5044 section 7.1.1: CRC when either side requests it. The reply says it too, so that the initiator need not
    /// conclude it.
    fn crc(&self) -> bool {
        self.offer.crc || self.header.crc
    }

    /// Markers as the initiator wants them.
    fn send_markers(&self) -> Option<MarkerSpacing> {
        self.header.markers.then(|| self.agreed_spacing(self.record.unwrap_or_default().wanted))
    }

    /// Markers as this side wants them.
    fn receive_markers(&self) -> Option<MarkerSpacing> {
        self.offer.receive_markers.map(|wanted| self.agreed_spacing(wanted))
    }

    fn agreed_spacing(&self, spacing: MarkerSpacing) -> MarkerSpacing {
        if self.extensions().marker_spacing { spacing } else { MarkerSpacing::Standard }
    }

    /// The record goes only to an initiator that has sent one. It names no spacing that the initiator does not know.
    fn reply_record(&self) -> Option<Record> {
        self.record?;
        let extensions = self.offer.extensions;
        let wanted = self.receive_markers().unwrap_or_default();
        let kept = self.send_markers().unwrap_or_default();
        extensions.any().then_some(Record { extensions, wanted, kept })
    }

    /// The one kind that the initiator shall open with. RFC 6581 section 9.2 lets the reply name fewer kinds than this
    /// side can take; naming one makes both sides know which it will be.
    fn choose_opening(&self) -> Option<ReadyKind> {
        let (ours, theirs) = (self.offer.ready_to_receive?, self.peer_to_peer()?);
        ours.and(theirs).cheapest()
    }

    /// RFC 6581 section 9.1, the responder's half.
    fn settle_depths(&self, opening: Option<ReadyKind>) -> (u16, u16) {
        let negotiated = self.enhanced.filter(|_| self.offer.negotiate_depths);
        let (most_ird, most_ord) = self.offer.depths();
        let ird = match negotiated.map_or(NOT_NEGOTIATED, |request| request.ord) {
            NOT_NEGOTIATED => self.offer.ird,
            // As many as the initiator wants.
            wanted => most_ird.min(wanted),
        };
        let ord = match negotiated.map_or(NOT_NEGOTIATED, |request| request.ird) {
            NOT_NEGOTIATED => self.offer.ord,
            // The ORD is at most the initiator's IRD.
            initiator_ird => most_ord.min(initiator_ird),
        };
        // A read that opens the connection has a place, even where neither application wants reads.
        (if opening == Some(ReadyKind::Read) { ird.max(1) } else { ird }, ord)
    }

    /// The word of the reply.
    fn answer(&self, request: &Enhanced, opening: Option<ReadyKind>, ird: u16, ord: u16) -> Enhanced {
        // RFC 6581 section 9.1: what either side does not negotiate is answered with the value that says so.
        let said = |own, peer| {
            if self.offer.negotiate_depths && peer != NOT_NEGOTIATED { own } else { NOT_NEGOTIATED }
        };
        // RFC 6581 section 9.2: A as in the request, and without it nothing else. With it at least one kind, if need be
        // one that the initiator cannot send: it then says so in a Terminate.
        let kinds = opening.map_or(self.offer.ready_to_receive.unwrap_or_default(), ReadyKinds::only);
        let kinds = if request.peer_to_peer { kinds } else { ReadyKinds::default() };
        Enhanced {
            ird: said(ird, request.ord),
            ord: said(ord, request.ird),
            peer_to_peer: request.peer_to_peer,
            rtr_send: kinds.send,
            rtr_write: kinds.write,
            rtr_read: kinds.read,
        }
    }
}
