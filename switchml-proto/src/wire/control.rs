//! Control messages (section 6): their octets are drawn in the project's protocol text.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{PROTOCOL_VERSION, raw};
use crate::ids::{
    ChunkSize, JobId, LaneCount, LaneId, LaneLayout, Nonce, Rank, Seq, SessionId, Window, WorkerSet,
    WorldSize,
};

/// Octets of the longest control message without padding: a status of 64 workers.
pub const MAX_CONTROL_LEN: usize = size_of::<raw::Head>() + size_of::<raw::Status>() + 2 * WorldSize::MAX;

/// Octets of the shortest join: head, parameters and no name. No answer to a join without a cookie is longer.
pub const MIN_JOIN_LEN: usize = size_of::<raw::Head>() + size_of::<raw::Join>();

/// Age of a rank that was never heard, and of one heard 65,535 ms ago or longer.
pub const STATUS_AGE_UNKNOWN: u16 = u16::MAX;

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

/// Name of a job: 1 to 64 octets of UTF-8 (C-1).
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct JobName {
    len: u8,
    octets: [u8; JobName::MAX_LEN],
}

impl JobName {
    /// The most octets of a name.
    pub const MAX_LEN: usize = 64;

    /// The name `name`, if it has 1 to 64 octets.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        if name.is_empty() {
            return None;
        }
        let mut octets = [0; Self::MAX_LEN];
        octets.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(Self { len: name.len() as u8, octets })
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // `new` takes nothing but UTF-8, so the fallback is never seen.
        core::str::from_utf8(self.as_octets()).unwrap_or_default()
    }

    fn as_octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
}

impl fmt::Debug for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for JobName {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{=str}", self.as_str());
    }
}

/// A control message. Any may be lost, duplicated and late.
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
        /// Rank of the join.
        rank: u8,
        /// Lane of the join.
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
    /// A join of another protocol version; only what every version keeps in place is told.
    ForeignJoin {
        /// Version it speaks.
        version: u8,
        /// Its rank octet.
        rank: u8,
        /// Its lane octet.
        lane: u8,
        /// Its nonce.
        nonce: Nonce,
    },
}

/// What a member asks for (C-1). Each lane of each rank joins from its own address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_structs, reason = "the fields of the message")]
pub struct Join {
    /// Name of the job: with `run`, its key.
    pub name: JobName,
    /// Tells runs of one name apart.
    pub run: u64,
    /// Number of workers.
    pub world_size: WorldSize,
    /// Which of them this is.
    pub rank: Rank,
    /// Number of lanes.
    pub lanes: LaneCount,
    /// Which of them this is.
    pub lane: LaneId,
    /// Elements of a packet.
    pub chunk: ChunkSize,
    /// Slots of a lane.
    pub window: Window,
    /// Of the process that joins.
    pub nonce: Nonce,
    /// From the challenge; 0 before there was one.
    pub cookie: u64,
}

/// What a member needs to know to take part (C-2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_structs, reason = "the fields of the message")]
pub struct Welcome {
    /// The job's number.
    pub job: JobId,
    /// Rank of the join.
    pub rank: Rank,
    /// Lane of the join.
    pub lane: LaneId,
    /// Nonce of the join.
    pub nonce: Nonce,
    /// The session.
    pub session: SessionId,
    /// First slot in each lane.
    pub base: u16,
    /// s0 in each lane.
    pub initial_seq: Seq,
    /// How long a member may be silent, in milliseconds.
    pub lease_millis: u32,
    /// Ranks of which some lane has not joined; when there is none, the session has begun.
    pub missing: WorkerSet,
    /// Whether all have joined and the slots are set up: data may flow.
    pub ready: bool,
}

/// What the aggregator knows of a phase and of the members (C-4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_structs, reason = "the fields of the message")]
pub struct StatusReport {
    /// The session.
    pub session: SessionId,
    /// The lane asked about.
    pub lane: LaneId,
    /// The packet asked about.
    pub seq: Seq,
    /// Its phase.
    pub phase: PhaseState,
    /// Ranks that the phase waits for.
    pub missing: WorkerSet,
    /// Number of workers.
    pub world_size: WorldSize,
    /// Milliseconds since each rank's last keep-alive, at most [`STATUS_AGE_UNKNOWN`]; 0 beyond the world size.
    pub ages_millis: [u16; WorldSize::MAX],
}

/// How far a phase is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(u8)]
pub enum PhaseState {
    /// No packet of it has arrived, or another phase has taken its place.
    Unknown = 0,
    /// Some workers' packets have arrived.
    Open = 1,
    /// All have.
    Complete = 2,
}

/// A parameter of a join.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(u8)]
pub enum Field {
    /// Number of workers.
    WorldSize = 1,
    /// Number of lanes.
    Lanes = 2,
    /// Elements of a packet.
    ChunkSize = 3,
    /// Slots of a lane.
    Window = 4,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WorldSize => "world size",
            Self::Lanes => "number of lanes",
            Self::ChunkSize => "chunk size",
            Self::Window => "window",
        })
    }
}

/// Why a join is refused (C-1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RejectReason {
    /// The aggregator speaks another version of the protocol.
    ProtocolVersion {
        /// The one it speaks.
        version: u8,
    },
    /// Another parameter than the job was created with.
    Disagrees {
        /// Which one.
        field: Field,
        /// The job's value, in elements, slots, lanes or workers.
        job_value: u32,
    },
    /// Another process joined with this rank.
    RankTaken,
    /// Too few slots are free for the job.
    NoFreeSlots {
        /// The most slots that a lane could get now.
        largest: u32,
    },
    /// No further job fits in the aggregator's tables.
    TooManyJobs,
    /// No further member fits in the aggregator's tables.
    TooManyMembers,
    /// The aggregator has fewer lanes.
    TooManyLanes {
        /// How many it has.
        lanes: u32,
    },
    /// The aggregator, or the path from it, carries only smaller chunks (W-11).
    ChunkTooLarge {
        /// The most elements that fit; 0 if no chunk does.
        largest: u32,
    },
    /// The join has an option that the aggregator does not know.
    UnknownOption,
    /// The job of that name and run ended a moment ago, or is being ended: try again later.
    Ending,
}

impl RejectReason {
    const fn to_raw(self) -> (u8, u8, u32) {
        match self {
            Self::ProtocolVersion { version } => (1, 0, version as u32),
            Self::Disagrees { field, job_value } => (2, field as u8, job_value),
            Self::RankTaken => (3, 0, 0),
            Self::NoFreeSlots { largest } => (4, 0, largest),
            Self::TooManyJobs => (5, 0, 0),
            Self::TooManyMembers => (6, 0, 0),
            Self::TooManyLanes { lanes } => (7, 0, lanes),
            Self::ChunkTooLarge { largest } => (8, 0, largest),
            Self::UnknownOption => (9, 0, 0),
            Self::Ending => (10, 0, 0),
        }
    }

    fn from_raw(reason: u8, field: u8, detail: u32) -> Result<Self, ControlError> {
        Ok(match reason {
            1 => Self::ProtocolVersion { version: detail as u8 },
            2 => {
                let field = match field {
                    1 => Field::WorldSize,
                    2 => Field::Lanes,
                    3 => Field::ChunkSize,
                    4 => Field::Window,
                    _ => return Err(ControlError::Value),
                };
                Self::Disagrees { field, job_value: detail }
            }
            3 => Self::RankTaken,
            4 => Self::NoFreeSlots { largest: detail },
            5 => Self::TooManyJobs,
            6 => Self::TooManyMembers,
            7 => Self::TooManyLanes { lanes: detail },
            8 => Self::ChunkTooLarge { largest: detail },
            9 => Self::UnknownOption,
            10 => Self::Ending,
            _ => return Err(ControlError::Value),
        })
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ProtocolVersion { version } => {
                write!(
                    f,
                    "it speaks protocol version {version}, not {PROTOCOL_VERSION}: use programs of one release"
                )
            }
            Self::Disagrees { field, job_value } => {
                write!(f, "the job's {field} is {job_value}: all ranks must give the same")
            }
            Self::RankTaken => f.write_str("this rank is taken by another process: give each its own rank"),
            Self::NoFreeSlots { largest } => {
                write!(
                    f,
                    "no free slots for this window: {largest} can be had now; use a smaller window, or wait for another job to end"
                )
            }
            Self::TooManyJobs => f.write_str("its job table is full: wait for another job to end"),
            Self::TooManyMembers => f.write_str("its member table is full: wait for another job to end"),
            Self::TooManyLanes { lanes } => write!(f, "it has {lanes} lanes: use no more"),
            Self::ChunkTooLarge { largest: 0 } => f.write_str("no chunk fits the path's MTU"),
            Self::ChunkTooLarge { largest } => {
                write!(
                    f,
                    "the chunk is too large for it or for the path's MTU: use at most {largest} elements"
                )
            }
            Self::UnknownOption => {
                f.write_str("the join has an option that it does not know: use programs of one release")
            }
            Self::Ending => f.write_str(
                "a job of this name and run is just ending: try again later, or give another run id",
            ),
        }
    }
}

/// Why a session failed (C-3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(u8)]
pub enum AbortReason {
    /// A member's lease ran out: it died, was stopped, or cannot reach the aggregator.
    LeaseExpired = 1,
    /// A member left while others still needed it.
    Left = 2,
    /// The members called different collectives (D-1).
    CollectivesDiffer = 3,
    /// A collective made no progress for the stall time (T-8).
    Stalled = 4,
    /// A member gave up, as its application told it to.
    Cancelled = 5,
    /// The aggregator knows no such session: it was restarted, or the session ended.
    UnknownSession = 6,
    /// The operator ended the job.
    Evicted = 7,
    /// Not all joined within the join timeout.
    JoinTimeout = 8,
    /// The aggregator stops.
    Shutdown = 9,
}

impl AbortReason {
    const fn from_raw(reason: u8) -> Option<Self> {
        Some(match reason {
            1 => Self::LeaseExpired,
            2 => Self::Left,
            3 => Self::CollectivesDiffer,
            4 => Self::Stalled,
            5 => Self::Cancelled,
            6 => Self::UnknownSession,
            7 => Self::Evicted,
            8 => Self::JoinTimeout,
            9 => Self::Shutdown,
            _ => return None,
        })
    }
}

impl fmt::Display for AbortReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeaseExpired => "a lease ran out",
            Self::Left => "a member left while others needed it",
            Self::CollectivesDiffer => "collectives differ",
            Self::Stalled => "a collective stalled",
            Self::Cancelled => "a member cancelled",
            Self::UnknownSession => {
                "the aggregator knows no such session: it was restarted, or the session has ended"
            }
            Self::Evicted => "the operator ended the job",
            Self::JoinTimeout => "not all joined in time",
            Self::Shutdown => "the aggregator stops",
        })
    }
}

impl Message {
    /// Parses one UDP payload.
    ///
    /// # Errors
    /// [`ControlError`] says what is wrong.
    pub fn parse(datagram: &[u8]) -> Result<Self, ControlError> {
        let Some(&first) = datagram.first() else { return Err(ControlError::Length) };
        let (kind, version) = (first >> 4, first & 0x0f);
        if kind == kind::NO_SESSION && version == PROTOCOL_VERSION {
            let raw = exact::<raw::NoSession>(datagram)?;
            return Ok(Self::NoSession { job: JobId(raw.job), seq: Seq(raw.seq.get()) });
        }
        let (head, body) = prefix::<raw::Head>(datagram)?;
        let token = head.token.get();
        if version != PROTOCOL_VERSION {
            return match kind {
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
        let nonce = |body| Ok(Nonce(exact::<raw::Member>(body)?.nonce.get()));
        Ok(match kind {
            kind::JOIN => Self::Join(Join::parse(&head, body)?),
            kind::CHALLENGE => {
                let cookie = exact::<raw::Challenge>(body)?.cookie.get();
                Self::Challenge { rank: rank()?, lane: lane()?, nonce: Nonce(token), cookie }
            }
            kind::WELCOME => Self::Welcome(Welcome::parse(&head, body)?),
            kind::REJECT => {
                let raw = exact::<raw::Reject>(body)?;
                let reason = RejectReason::from_raw(raw.reason, raw.field, raw.detail.get())?;
                Self::Reject { rank: head.rank, lane: head.lane, nonce: Nonce(token), reason }
            }
            kind::KEEP_ALIVE => Self::KeepAlive { job, rank: rank()?, session, nonce: nonce(body)? },
            kind::ALIVE => Self::Alive { session, nonce: nonce(body)? },
            kind::LEAVE => Self::Leave { job, rank: rank()?, session, nonce: nonce(body)? },
            kind::LEFT => Self::Left { session, nonce: nonce(body)? },
            kind::ABORT => {
                let raw = exact::<raw::Abort>(body)?;
                let reason = AbortReason::from_raw(raw.reason).ok_or(ControlError::Value)?;
                let culprit = match raw.culprit {
                    NO_CULPRIT => None,
                    culprit => Some(Rank::new(culprit.into()).or(Err(ControlError::Value))?),
                };
                Self::Abort { job, rank: rank()?, session, reason, culprit }
            }
            kind::ABORTED => Self::Aborted { rank: rank()?, session, nonce: nonce(body)? },
            kind::QUERY => {
                let seq = Seq(exact::<raw::Query>(body)?.seq.get());
                Self::Query { job, rank: rank()?, lane: lane()?, session, seq }
            }
            kind::STATUS => Self::Status(StatusReport::parse(session, lane()?, body)?),
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
                let (reason, field, detail) = reason.to_raw();
                out.put(&raw::Reject { reason, field, reserved: 0.into(), detail: detail.into() });
            }
            Self::KeepAlive { job, rank, session, nonce } => {
                out.member(kind::KEEP_ALIVE, job, rank, session, nonce)
            }
            Self::Alive { session, nonce } => out.member(kind::ALIVE, JobId(0), RANK_ZERO, session, nonce),
            Self::Leave { job, rank, session, nonce } => out.member(kind::LEAVE, job, rank, session, nonce),
            Self::Left { session, nonce } => out.member(kind::LEFT, JobId(0), RANK_ZERO, session, nonce),
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
                out.put(&raw::NoSession { kind_version, job: job.0, seq: seq.0.into(), slot: 0.into() });
            }
            Self::ForeignJoin { version, rank, lane, nonce } => {
                let kind_version = kind::JOIN << 4 | version & 0x0f;
                out.put(&raw::Head { kind_version, job: 0, rank, lane, token: nonce.0.into() });
            }
        }
        out.len
    }
}

const RANK_ZERO: Rank = match Rank::new(0) {
    Ok(rank) => rank,
    Err(_) => unreachable!(),
};

impl Join {
    fn parse(head: &raw::Head, body: &[u8]) -> Result<Self, ControlError> {
        let (raw, rest) = prefix::<raw::Join>(body)?;
        let Some((name, rest)) = rest.split_at_checked(raw.name_len.into()) else {
            return Err(ControlError::Length);
        };
        if raw.options_len.get() != 0 {
            return Err(ControlError::Option {
                rank: head.rank,
                lane: head.lane,
                nonce: Nonce(head.token.get()),
            });
        }
        zeros(rest)?;
        let name = core::str::from_utf8(name).ok().and_then(JobName::new).ok_or(ControlError::Value)?;
        let invalid = |_| ControlError::Value;
        let join = Self {
            name,
            run: raw.run.get(),
            world_size: WorldSize::new(raw.world_size.into()).map_err(invalid)?,
            rank: Rank::new(head.rank.into()).map_err(invalid)?,
            lanes: LaneCount::new(raw.lanes.into()).map_err(invalid)?,
            lane: LaneId::new(head.lane.into()).map_err(invalid)?,
            chunk: ChunkSize::from_code(raw.chunk).ok_or(ControlError::Value)?,
            window: Window::new(raw.window.get().into()).map_err(invalid)?,
            nonce: Nonce(head.token.get()),
            cookie: raw.cookie.get(),
        };
        if join.rank.get() >= join.world_size.get() || join.lane.get() >= join.lanes.get() {
            return Err(ControlError::Value);
        }
        Ok(join)
    }

    fn emit(&self, out: &mut Writer<'_>) {
        out.head(kind::JOIN, JobId(0), self.rank, self.lane, self.nonce.0);
        out.put(&raw::Join {
            world_size: self.world_size.get(),
            lanes: self.lanes.get(),
            chunk: self.chunk.code(),
            name_len: self.name.len,
            window: self.window.get().into(),
            options_len: 0.into(),
            run: self.run.into(),
            cookie: self.cookie.into(),
        });
        out.put(self.name.as_octets());
    }
}

impl Welcome {
    fn parse(head: &raw::Head, body: &[u8]) -> Result<Self, ControlError> {
        let (raw, padding) = prefix::<raw::Welcome>(body)?;
        zeros(padding)?;
        let invalid = |_| ControlError::Value;
        Ok(Self {
            job: JobId(head.job),
            rank: Rank::new(head.rank.into()).map_err(invalid)?,
            lane: LaneId::new(head.lane.into()).map_err(invalid)?,
            nonce: Nonce(head.token.get()),
            session: SessionId(raw.session.get()),
            base: raw.base.get(),
            initial_seq: Seq(raw.initial_seq.get()),
            lease_millis: raw.lease_millis.get(),
            missing: WorkerSet::from_bits(raw.missing.get()),
            ready: match raw.ready {
                0 => false,
                1 => true,
                _ => return Err(ControlError::Value),
            },
        })
    }

    fn emit(&self, out: &mut Writer<'_>) {
        out.head(kind::WELCOME, self.job, self.rank, self.lane, self.nonce.0);
        out.put(&raw::Welcome {
            session: self.session.0.into(),
            missing: self.missing.bits().into(),
            initial_seq: self.initial_seq.0.into(),
            lease_millis: self.lease_millis.into(),
            base: self.base.into(),
            ready: self.ready.into(),
            reserved: 0,
            reserved_word: 0.into(),
        });
    }

    /// The layout of the job's lanes, if the slots it names exist.
    #[must_use]
    pub fn layout(&self, window: Window, chunk: ChunkSize) -> Option<LaneLayout> {
        LaneLayout::new(self.base, window, chunk).ok()
    }
}

impl StatusReport {
    fn parse(session: SessionId, lane: LaneId, body: &[u8]) -> Result<Self, ControlError> {
        let (raw, ages) = prefix::<raw::Status>(body)?;
        let world_size = WorldSize::new(raw.world_size.into()).or(Err(ControlError::Value))?;
        let ages = <[raw::Age]>::ref_from_bytes(ages).or(Err(ControlError::Length))?;
        if ages.len() != usize::from(world_size.get()) {
            return Err(ControlError::Length);
        }
        let mut ages_millis = [0; WorldSize::MAX];
        for (millis, age) in ages_millis.iter_mut().zip(ages) {
            *millis = age.millis.get();
        }
        Ok(Self {
            session,
            lane,
            seq: Seq(raw.seq.get()),
            phase: match raw.phase {
                0 => PhaseState::Unknown,
                1 => PhaseState::Open,
                2 => PhaseState::Complete,
                _ => return Err(ControlError::Value),
            },
            missing: WorkerSet::from_bits(raw.missing.get()),
            world_size,
            ages_millis,
        })
    }

    fn emit(&self, out: &mut Writer<'_>) {
        out.head(kind::STATUS, JobId(0), RANK_ZERO, self.lane, self.session.0);
        out.put(&raw::Status {
            seq: self.seq.0.into(),
            phase: self.phase as u8,
            world_size: self.world_size.get(),
            reserved: 0.into(),
            missing: self.missing.bits().into(),
        });
        for &millis in &self.ages_millis[..usize::from(self.world_size.get())] {
            out.put(&raw::Age { millis: millis.into() });
        }
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

fn zeros(padding: &[u8]) -> Result<(), ControlError> {
    if padding.iter().all(|&octet| octet == 0) { Ok(()) } else { Err(ControlError::Padding) }
}

/// Why a datagram is no control message. Never fatal: drop it and count it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ControlError {
    /// Fewer or more octets than the message has.
    Length,
    /// No message has this kind.
    Kind {
        /// The four high bits of octet 0.
        kind: u8,
    },
    /// Another version of the protocol.
    Version {
        /// The four low bits of octet 0.
        version: u8,
    },
    /// A field holds a value that it cannot have.
    Value,
    /// Padding that is not 0.
    Padding,
    /// A join with an option; this version knows none. The aggregator answers it.
    Option {
        /// Its rank octet.
        rank: u8,
        /// Its lane octet.
        lane: u8,
        /// Its nonce.
        nonce: Nonce,
    },
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Length => f.write_str("the length is not that of the message"),
            Self::Kind { kind } => write!(f, "kind {kind} is no message"),
            Self::Version { version } => write!(f, "protocol version {version} is not {PROTOCOL_VERSION}"),
            Self::Value => f.write_str("a field holds a value that it cannot have"),
            Self::Padding => f.write_str("the padding is not 0"),
            Self::Option { .. } => f.write_str("the join has an option, and this version knows none"),
        }
    }
}

impl core::error::Error for ControlError {}
