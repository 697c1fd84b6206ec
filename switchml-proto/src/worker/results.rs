//! What a result does to the worker, and what that makes sendable.

use super::Worker;
use super::config::Config;
use super::outcome::Failure;
use super::plan::Plan;
use super::received::{Chunk, Malformed, Received};
use super::slots::{Queue, Sendings};
use super::transmit::{Cause, ChunkRef, Fidelity, Transmit};
use crate::ids::Seq;
use crate::numeric::NO_EXPONENT;
use crate::rtt::BackOff;
use crate::wire::{DIGESTS_DIFFER, Header, Packet, PayloadSize};

impl Worker<'_> {
    /// Queues a packet that was never sent, if T-2 and T-3 allow it now.
    pub(super) fn ready(&mut self, plan: &Plan, packet: u32) {
        let seq = plan.first().plus(packet);
        let index = self.config.layout.index(seq);
        let is_next = self.slots.get(index).seq == seq && self.slots.queue(index).is_none();
        if is_next && plan.needs(packet).is_none_or(|needed| self.is_answered(plan.first().plus(needed))) {
            self.slots.enqueue(index, Queue::Ready);
        }
    }

    /// Whether the result of a packet of an open collective was accepted: then its slot has gone on.
    fn is_answered(&self, seq: Seq) -> bool {
        let next = self.slots.get(self.config.layout.index(seq)).seq;
        (1..1 << 31).contains(&next.since(seq))
    }

    pub(super) fn build(&self, place: usize, plan: &Plan, packet: u32, cause: Cause) -> Transmit {
        let Config { job, layout, .. } = self.config;
        let content = plan.content(packet);
        let encode = content.chunk.map(|chunk| ChunkRef {
            elements: plan.elements(chunk),
            exponent: self.agreed_exponent(place, plan, chunk),
        });
        let size = match encode {
            Some(_) => PayloadSize::Elements(layout.chunk()),
            None => PayloadSize::ExponentOnly,
        };
        let seq = plan.first().plus(packet);
        let header = Header::new(job, layout, seq, size, NO_EXPONENT, plan.digest(packet));
        Transmit { collective: plan.id, header, encode, exponent: content.exponent, cause }
    }

    /// The block exponent agreed for a chunk, from its cell (T-3).
    fn agreed_exponent(&self, place: usize, plan: &Plan, chunk: u32) -> i8 {
        plan.cell_of(chunk).map_or(NO_EXPONENT, |cell| self.slots.get(cell).cells[place])
    }

    /// T-4.
    pub(super) fn receive<'d>(&mut self, datagram: &'d [u8]) -> Received<'d> {
        let result = match Packet::parse(datagram) {
            Ok(result) => result,
            Err(error) => return Received::Malformed(Malformed::Data(error)),
        };
        let header = *result.header();
        if header.job != self.config.job {
            return Received::Foreign;
        }
        if !header.is_placed_by(self.config.layout) {
            return Received::Malformed(Malformed::Placement);
        }
        if self.failure.is_some() {
            return Received::Stale;
        }
        let index = self.config.layout.index(header.seq);
        let ahead = self.slots.get(index).seq.since(header.seq);
        let window = u32::from(self.config.layout.window().get());
        if ahead == window {
            return Received::Duplicate;
        }
        if (1..1 << 31).contains(&ahead) {
            return Received::Stale;
        }
        if ahead != 0 || matches!(self.slots.queue(index), None | Some(Queue::Ready)) {
            return Received::Foreign;
        }
        // There is one: the packet is under way.
        let Some((place, plan, packet)) = self.find(header.seq) else { return Received::Foreign };
        if header.digest == DIGESTS_DIFFER {
            self.fail(Failure::CollectivesDiffer { seq: header.seq });
            return Received::Differ;
        }
        if header.digest != plan.digest(packet) {
            return Received::Malformed(Malformed::Digest);
        }
        let chunk = plan.content(packet).chunk;
        let size = match chunk {
            Some(_) => PayloadSize::Elements(self.config.layout.chunk()),
            None => PayloadSize::ExponentOnly,
        };
        if header.size != size {
            return Received::Malformed(Malformed::Size);
        }
        let received = match chunk {
            None => Received::Exponent { collective: plan.id },
            Some(chunk) => Received::Chunk(Chunk {
                collective: plan.id,
                range: plan.elements(chunk).range(),
                // Read before this result may write the same cell (T-3).
                exponent: self.agreed_exponent(place, &plan, chunk),
                fidelity: if plan.has_marks() {
                    Fidelity::of_result(header.exponent)
                } else {
                    Fidelity::Faithful
                },
                elements: result.elements(),
            }),
        };
        if let Some(cell) = plan.cell_written(packet) {
            self.slots.get_mut(cell).cells[place] = header.exponent;
        }
        self.accept(place, &plan, packet, index, size);
        received
    }

    /// T-5: a result frees its slot, and may make packets sendable.
    fn accept(&mut self, place: usize, plan: &Plan, packet: u32, index: usize, size: PayloadSize) {
        let window = self.config.layout.window().get().into();
        let slot = self.slots.get_mut(index);
        let sent_at = slot.sent_at;
        let sent_once = slot.sendings == Sendings::One;
        slot.seq = slot.seq.plus(window);
        let next = slot.seq;
        let in_flight = self.slots.in_flight();
        self.slots.release(index);
        while self.oldest != self.next_seq && self.is_answered(self.oldest) {
            self.oldest = self.oldest.plus(1);
        }

        let round_trip = sent_once.then(|| self.now.since(sent_at));
        let back_off = self.rto.accept(round_trip, self.under_way);
        // Nothing that was sent before it is still in flight: those behind it come in turn (RFC 6298 section 5.3).
        let in_turn =
            self.slots.first(Queue::InFlight).is_none_or(|first| sent_at <= self.slots.get(first).sent_at);
        if in_turn || back_off == BackOff::Ended {
            self.resumed_at = self.now;
        }
        // Packets without elements are so short that they say nothing of how many others fit the path.
        if size != PayloadSize::ExponentOnly {
            self.congestion.accept(self.now, sent_at, round_trip, in_flight);
        }
        self.progress_at = self.now;
        self.under_way -= 1;
        if let Some(open) = &mut self.open[place] {
            open.unanswered -= 1;
        }
        if sent_once {
            self.answered_until = self.answered_until.max(sent_at);
            self.resend_overtaken();
        }

        if let Some((_, plan, packet)) = self.find(next) {
            self.ready(&plan, packet);
        }
        if let Some(later) = plan.needed_by(packet) {
            self.ready(plan, later);
        }
    }
}
