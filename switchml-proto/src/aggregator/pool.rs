//! The slots, and what packets do to them.

use super::decision::{Answer, Contribution, Fill, Relation, Update, decide};
use super::storage::Member;
use super::{Egress, Kernels, Phase, Reject, Reply};
use crate::ids::{ChunkSize, LaneLayout, Rank, Seq, Version};
use crate::wire::{DIGESTS_DIFFER, Header, Packet, PayloadSize};

/// The slots of one lane, for all jobs.
#[derive(Debug)]
pub(super) struct Pool<'p> {
    pub(super) phases: &'p mut [Phase],
    pub(super) elements: &'p mut [i32],
    largest_chunk: ChunkSize,
    kernels: Kernels,
}

impl<'p> Pool<'p> {
    /// `elements` holds a chunk of `largest_chunk` for each of `phases`.
    pub(super) const fn new(
        phases: &'p mut [Phase],
        elements: &'p mut [i32],
        largest_chunk: ChunkSize,
        kernels: Kernels,
    ) -> Self {
        Self { phases, elements, largest_chunk, kernels }
    }

    pub(super) const fn slots(&self) -> usize {
        self.phases.len() / 2
    }

    pub(super) const fn largest_chunk(&self) -> ChunkSize {
        self.largest_chunk
    }

    /// Takes a packet that passed the checks of A-1 for `member`: its slot is in the member's lane, hence in
    /// the pool.
    pub(super) fn take(&mut self, member: &Member, packet: &Packet<'_>) -> Egress<'_> {
        let Member { session, rank } = *member;
        let header = packet.header();
        let index = phase_index(header.slot, header.version);
        let shadow = &self.phases[phase_index(header.slot, header.version.other())];
        let addressed = &self.phases[index];

        let relation = Relation::of(header.seq, addressed, shadow, session.layout.window());
        let contribution = Contribution::of(rank, addressed);
        let fill = Fill::of(rank, addressed, relation, session.world_size);
        let (update, answer) = decide(relation, contribution, fill);

        let phase = &mut self.phases[index];
        let chunk = &mut self.elements[index * self.largest_chunk.elements()..];
        match update {
            Update::Keep => {}
            Update::Add => {
                phase.add(header, rank);
                if phase.size == header.size {
                    (self.kernels.add)(packet.elements(), &mut chunk[..element_count(header.size)]);
                }
            }
            Update::Overwrite => {
                *phase = Phase::begin(header, rank);
                (self.kernels.store)(packet.elements(), &mut chunk[..element_count(header.size)]);
            }
        }
        match answer {
            Answer::Consume => Egress::Consume,
            Answer::Ignore => Egress::Ignore,
            Answer::Reject => Egress::Reject(Reject::Stale),
            Answer::Unicast => Egress::Unicast(self.reply(header, rank)),
            Answer::Multicast => Egress::Multicast(self.reply(header, rank)),
        }
    }

    /// The result of the phase that a packet with this header belongs to.
    pub(super) fn reply(&self, asked: &Header, rank: Rank) -> Reply<'_> {
        let index = phase_index(asked.slot, asked.version);
        let Phase { size, exponent, digest, .. } = self.phases[index];
        Reply {
            header: Header { size, exponent, digest, ..*asked },
            elements: &self.elements[index * self.largest_chunk.elements()..][..element_count(size)],
            rank,
            kernels: &self.kernels,
        }
    }

    /// The phase that packet `seq` of a lane goes to; the lane is in the pool.
    pub(super) fn phase(&self, layout: LaneLayout, seq: Seq) -> &Phase {
        &self.phases[phase_index(layout.slot(seq), layout.version(seq))]
    }

    /// The phases of a lane, which is in the pool: both versions of its first slot, of the next, and so on.
    pub(super) fn lane(&self, layout: LaneLayout) -> &[Phase] {
        let first = phase_index(layout.base(), Version::Zero);
        &self.phases[first..][..2 * usize::from(layout.window().get())]
    }

    pub(super) fn lane_mut(&mut self, layout: LaneLayout) -> &mut [Phase] {
        let first = phase_index(layout.base(), Version::Zero);
        &mut self.phases[first..][..2 * usize::from(layout.window().get())]
    }
}

impl Phase {
    ///
    const fn begin(header: &Header, rank: Rank) -> Self {
        Self {
            seen: crate::WorkerSet::EMPTY.with(rank),
            seq: header.seq,
            size: header.size,
            exponent: header.exponent,
            digest: header.digest,
        }
    }

    /// A-4, but for the elements.
    fn add(&mut self, header: &Header, rank: Rank) {
        self.seen = self.seen.with(rank);
        self.exponent = self.exponent.max(header.exponent);
        if self.digest != header.digest || self.size != header.size {
            self.digest = DIGESTS_DIFFER;
        }
    }
}

/// Both versions of a slot lie side by side.
fn phase_index(slot: u16, version: Version) -> usize {
    2 * usize::from(slot) + version.index()
}

const fn element_count(size: PayloadSize) -> usize {
    size.octets() / size_of::<i32>()
}
