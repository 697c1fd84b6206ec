//! Control messages (section 6). Their octets are drawn in the project's protocol text.

mod error;
mod join;
mod reasons;
mod status;

pub use error::ControlError;
pub use join::{JobName, Join, Welcome};
pub use reasons::{AbortReason, Field, RejectReason};
pub use status::{PhaseState, STATUS_AGE_UNKNOWN, StatusReport};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{HEADER_LEN, PROTOCOL_VERSION, raw};
use crate::ids::{JobId, LaneId, Nonce, Rank, Seq, SessionId, WorldSize};

/// Octets of the longest control message without padding: a status of 64 workers.
pub const MAX_CONTROL_LEN: usize = size_of::<raw::Head>() + size_of::<raw::Status>() + 2 * WorldSize::MAX;

/// Octets of a join of this version before its name, and the least that a join of any version has. No answer to a
/// join without a cookie is longer, so a forged source gets no more than was sent in its name (C-1).
pub const MIN_JOIN_LEN: usize = size_of::<raw::Head>() + size_of::<raw::Join>();

// Answers to a sender of whom nothing is known are not longer than what they answer (C-1, C-3), and a buffer of
// `MAX_CONTROL_LEN` octets holds every message.
const _: () = {
    const HEAD: usize = size_of::<raw::Head>();
    assert!(HEAD + size_of::<raw::Challenge>() <= MIN_JOIN_LEN);
    assert!(HEAD + size_of::<raw::Reject>() <= MIN_JOIN_LEN);
    assert!(size_of::<raw::Abort>() <= size_of::<raw::Member>());
    assert!(size_of::<raw::Abort>() <= size_of::<raw::Query>());
    assert!(size_of::<raw::NoSession>() <= HEADER_LEN);
    assert!(MIN_JOIN_LEN + JobName::MAX_LEN <= MAX_CONTROL_LEN);
    assert!(HEAD + size_of::<raw::Welcome>() <= MAX_CONTROL_LEN);
};

/// Culprit octet of an abort that no rank caused.
const NO_CULPRIT: u8 = u8::MAX;

/// Kinds, the four high bits of octet 0 (1 is data).
mod kind {
    pub(super) const JOIN: u8 = 2;
    pub(super) const CHALLENGE: u8 = 3;
    pub(super) const WELCOME: u8 = 4;
    pub(super) const REJECT: u8 = 5;
    pub(super) const KEEP_ALIVE: u8 = 6;
    pub(super) const ALIVE: u8 = 7;
    pub(super) const LEAVE: u8 = 8;
    pub(super) const LEFT: u8 = 9;
    pub(super) const ABORT: u8 = 10;
    pub(super) const ABORTED: u8 = 11;
    pub(super) const QUERY: u8 = 12;
    pub(super) const STATUS: u8 = 13;
    pub(super) const NO_SESSION: u8 = 14;
}

/// A control message. Any may be lost, duplicated and late.
///
/// What [`parse`](Self::parse) accepts, [`emit`](Self::emit) writes again octet for octet, but for two cases: the
/// padding of a join or a welcome is not written, and of a foreign join only the octets that are told here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Message {
    /// Member: let this lane of this rank join (C-1).
    Join(Join),
    /// Aggregator: echo this cookie in your join, so that I know the address is yours (C-1).
    Challenge {
        /// Rank of the join.
        rank: Rank,
        /// Lane of the join.
        lane: LaneId,
        /// Nonce of the join.
        nonce: Nonce,
        /// What the next join must carry.
        cookie: u64,
    },
    /// Aggregator: you are in (C-2).
    Welcome(Welcome),
    /// Aggregator: you are not (C-1).
    Reject {
        /// Rank octet of the join, as it came.
        rank: u8,
        /// Lane octet of the join, as it came.
        lane: u8,
        /// Nonce of the join.
        nonce: Nonce,
        /// Why.
        reason: RejectReason,
    },
    /// Member: I live (C-3).
    KeepAlive {
        /// Its job.
        job: JobId,
        /// Its rank.
        rank: Rank,
        /// Its session.
        session: SessionId,
        /// Its nonce.
        nonce: Nonce,
    },
    /// Aggregator: so do I and your session.
    Alive {
        /// The member's session.
        session: SessionId,
        /// The member's nonce.
        nonce: Nonce,
    },
    /// Member: I have all results I want (C-3).
    Leave {
        /// Its job.
        job: JobId,
        /// Its rank.
        rank: Rank,
        /// Its session.
        session: SessionId,
        /// Its nonce.
        nonce: Nonce,
    },
    /// Aggregator: go in peace.
    Left {
        /// The member's session.
        session: SessionId,
        /// The member's nonce.
        nonce: Nonce,
    },
    /// Either: this session has failed (C-3).
    Abort {
        /// Its job.
        job: JobId,
        /// From a member its rank; from the aggregator the rank it is sent to.
        rank: Rank,
        /// The session.
        session: SessionId,
        /// Why.
        reason: AbortReason,
        /// The rank that caused it, if one did.
        culprit: Option<Rank>,
    },
    /// Either: the abort was heard.
    Aborted {
        /// Its rank.
        rank: Rank,
        /// The session.
        session: SessionId,
        /// The member's nonce.
        nonce: Nonce,
    },
    /// Member: who is missing in the phase of this seq (C-4)?
    Query {
        /// Its job.
        job: JobId,
        /// Its rank.
        rank: Rank,
        /// The lane it asks about.
        lane: LaneId,
        /// Its session.
        session: SessionId,
        /// The packet it waits for.
        seq: Seq,
    },
    /// Aggregator: these are (C-4).
    Status(StatusReport),
    /// Aggregator: a data packet came for which there is no session (C-3). It is a hint without authority: the
    /// member sends a keep-alive, whose answer counts.
    NoSession {
        /// Job of that packet.
        job: JobId,
        /// Seq of that packet.
        seq: Seq,
    },
    /// A join of another protocol version, so that it can be told why it is refused (C-1). Only what every version
    /// keeps in place is told.
    ForeignJoin {
        /// Version it speaks, 0 to 15 and not [`PROTOCOL_VERSION`].
        version: u8,
        /// Its rank octet.
        rank: u8,
        /// Its lane octet.
        lane: u8,
        /// Its nonce.
        nonce: Nonce,
    },
}

impl Message {
    /// Parses one UDP payload.
    ///
    /// # Errors
    /// [`ControlError`] says what is wrong with it.
    pub fn parse(datagram: &[u8]) -> Result<Self, ControlError> {
        let Some(&first) = datagram.first() else { return Err(ControlError::Length) };
        let (kind, version) = (first >> 4, first & 0x0f);
        if kind == kind::NO_SESSION && version == PROTOCOL_VERSION {
            let raw = exact::<raw::NoSession>(datagram)?;
            unused(raw.reserved.as_bytes())?;
            return Ok(Self::NoSession { job: JobId(raw.job), seq: Seq(raw.seq.get()) });
        }
        let (head, body) = prefix::<raw::Head>(datagram)?;
        let token = head.token.get();
        if version != PROTOCOL_VERSION {
            return match kind {
                kind::JOIN if datagram.len() < MIN_JOIN_LEN => Err(ControlError::Length),
                kind::JOIN => {
                    Ok(Self::ForeignJoin { version, rank: head.rank, lane: head.lane, nonce: Nonce(token) })
                }
                _ => Err(ControlError::Version { version }),
            };
        }
        let job = JobId(head.job);
        let session = SessionId(token);
        let rank = || Rank::new(head.rank.into()).or(Err(ControlError::Value));
        let lane = || LaneId::new(head.lane.into()).or(Err(ControlError::Value));
        let nonce = || Ok(Nonce(exact::<raw::Member>(body)?.nonce.get()));
        Ok(match kind {
            kind::JOIN => Self::Join(Join::parse(&head, body)?),
            kind::CHALLENGE => {
                let cookie = exact::<raw::Challenge>(body)?.cookie.get();
                unused(&[head.job])?;
                Self::Challenge { rank: rank()?, lane: lane()?, nonce: Nonce(token), cookie }
            }
            kind::WELCOME => Self::Welcome(Welcome::parse(&head, body)?),
            kind::REJECT => {
                let raw = exact::<raw::Reject>(body)?;
                unused(&[head.job])?;
                unused(raw.reserved.as_bytes())?;
                let reason = RejectReason::from_raw(&raw)?;
                Self::Reject { rank: head.rank, lane: head.lane, nonce: Nonce(token), reason }
            }
            kind::KEEP_ALIVE => {
                let nonce = nonce()?;
                unused(&[head.lane])?;
                Self::KeepAlive { job, rank: rank()?, session, nonce }
            }
            kind::ALIVE => {
                let nonce = nonce()?;
                unused(&[head.job, head.rank, head.lane])?;
                Self::Alive { session, nonce }
            }
            kind::LEAVE => {
                let nonce = nonce()?;
                unused(&[head.lane])?;
                Self::Leave { job, rank: rank()?, session, nonce }
            }
            kind::LEFT => {
                let nonce = nonce()?;
                unused(&[head.job, head.rank, head.lane])?;
                Self::Left { session, nonce }
            }
            kind::ABORT => {
                let raw = exact::<raw::Abort>(body)?;
                unused(&[head.lane])?;
                unused(raw.reserved.as_bytes())?;
                let reason = AbortReason::from_raw(raw.reason).ok_or(ControlError::Value)?;
                let culprit = match raw.culprit {
                    NO_CULPRIT => None,
                    culprit => Some(Rank::new(culprit.into()).or(Err(ControlError::Value))?),
                };
                Self::Abort { job, rank: rank()?, session, reason, culprit }
            }
            kind::ABORTED => {
                let nonce = nonce()?;
                unused(&[head.job, head.lane])?;
                Self::Aborted { rank: rank()?, session, nonce }
            }
            kind::QUERY => {
                let raw = exact::<raw::Query>(body)?;
                unused(raw.reserved.as_bytes())?;
                Self::Query { job, rank: rank()?, lane: lane()?, session, seq: Seq(raw.seq.get()) }
            }
            kind::STATUS => Self::Status(StatusReport::parse(&head, body)?),
            _ => return Err(ControlError::Kind { kind }),
        })
    }

    /// Writes the message at the start of `datagram`, and returns its length, at most [`MAX_CONTROL_LEN`].
    ///
    /// A join and a welcome may be padded with octets of 0 up to any length: whoever sends one that proves the
    /// path (W-11) sends more octets of a zeroed buffer.
    ///
    /// # Panics
    /// If `datagram` is shorter than [`MAX_CONTROL_LEN`].
    pub fn emit(&self, datagram: &mut [u8]) -> usize {
        let mut out = Writer { datagram, len: 0 };
        match *self {
            Self::Join(ref join) => join.emit(&mut out),
            Self::Challenge { rank, lane, nonce, cookie } => {
                out.head(kind::CHALLENGE, JobId(0), rank, lane, nonce.0);
                out.put(&raw::Challenge { cookie: cookie.into() });
            }
            Self::Welcome(ref welcome) => welcome.emit(&mut out),
            Self::Reject { rank, lane, nonce, reason } => {
                let kind_version = kind::REJECT << 4 | PROTOCOL_VERSION;
                out.put(&raw::Head { kind_version, job: 0, rank, lane, token: nonce.0.into() });
                out.put(&reason.to_raw());
            }
            Self::KeepAlive { job, rank, session, nonce } => {
                out.member(kind::KEEP_ALIVE, job, rank, session, nonce)
            }
            Self::Alive { session, nonce } => out.member(kind::ALIVE, JobId(0), Rank::ZERO, session, nonce),
            Self::Leave { job, rank, session, nonce } => out.member(kind::LEAVE, job, rank, session, nonce),
            Self::Left { session, nonce } => out.member(kind::LEFT, JobId(0), Rank::ZERO, session, nonce),
            Self::Abort { job, rank, session, reason, culprit } => {
                out.head(kind::ABORT, job, rank, LaneId::ZERO, session.0);
                let culprit = culprit.map_or(NO_CULPRIT, Rank::get);
                out.put(&raw::Abort { reason: reason as u8, culprit, reserved: 0.into() });
            }
            Self::Aborted { rank, session, nonce } => {
                out.member(kind::ABORTED, JobId(0), rank, session, nonce)
            }
            Self::Query { job, rank, lane, session, seq } => {
                out.head(kind::QUERY, job, rank, lane, session.0);
                out.put(&raw::Query { seq: seq.0.into(), reserved: 0.into() });
            }
            Self::Status(ref report) => report.emit(&mut out),
            Self::NoSession { job, seq } => {
                let kind_version = kind::NO_SESSION << 4 | PROTOCOL_VERSION;
                out.put(&raw::NoSession { kind_version, job: job.0, seq: seq.0.into(), reserved: 0.into() });
            }
            Self::ForeignJoin { version, rank, lane, nonce } => {
                let kind_version = kind::JOIN << 4 | version & 0x0f;
                out.put(&raw::Head { kind_version, job: 0, rank, lane, token: nonce.0.into() });
                out.put(&[0_u8; size_of::<raw::Join>()]);
            }
        }
        out.len
    }
}

/// Puts one struct behind the other.
struct Writer<'a> {
    datagram: &'a mut [u8],
    len: usize,
}

impl Writer<'_> {
    fn put(&mut self, part: &(impl IntoBytes + Immutable + ?Sized)) {
        let octets = part.as_bytes();
        self.datagram[self.len..][..octets.len()].copy_from_slice(octets);
        self.len += octets.len();
    }

    fn head(&mut self, kind: u8, job: JobId, rank: Rank, lane: LaneId, token: u64) {
        let kind_version = kind << 4 | PROTOCOL_VERSION;
        self.put(&raw::Head {
            kind_version,
            job: job.0,
            rank: rank.get(),
            lane: lane.get(),
            token: token.into(),
        });
    }

    fn member(&mut self, kind: u8, job: JobId, rank: Rank, session: SessionId, nonce: Nonce) {
        self.head(kind, job, rank, LaneId::ZERO, session.0);
        self.put(&raw::Member { nonce: nonce.0.into() });
    }
}

fn prefix<T: FromBytes + KnownLayout + Immutable + Unaligned + Copy>(
    octets: &[u8],
) -> Result<(T, &[u8]), ControlError> {
    T::read_from_prefix(octets).or(Err(ControlError::Length))
}

fn exact<T: FromBytes + KnownLayout + Immutable + Unaligned + Copy>(
    octets: &[u8],
) -> Result<T, ControlError> {
    T::read_from_bytes(octets).or(Err(ControlError::Length))
}

/// Octets that a message of this kind has no use for: they are sent as 0, and anything else is refused.
fn unused(octets: &[u8]) -> Result<(), ControlError> {
    if octets.iter().all(|&octet| octet == 0) { Ok(()) } else { Err(ControlError::Reserved) }
}

/// What follows a join or a welcome up to the length that proves the path (W-11).
fn zeros(padding: &[u8]) -> Result<(), ControlError> {
    if padding.iter().all(|&octet| octet == 0) { Ok(()) } else { Err(ControlError::Padding) }
}

#[cfg(test)]
mod tests;
