//! Results on their way out, gathered into runs of equal datagrams.

use core::net::SocketAddr;

use switchml_proto::aggregator::{Egress, Reply};
use switchml_proto::wire::{HEADER_LEN, MAX_DATAGRAM_LEN};
use switchml_proto::{ChunkSize, JobId};

use super::lane::{Lane, Member};
use crate::transport::BATCH;

/// The results that one batch of datagrams brings forth: a run for each job, which goes to all its members, and one
/// for results that a single member asked for again.
#[derive(Debug)]
pub(super) struct Outbox {
    longest: usize,
    /// By job number; made when the job has its first result.
    multicast: Vec<Option<Run>>,
    /// Jobs whose run is not empty.
    waiting: Vec<JobId>,
    unicast: Run,
}

impl Outbox {
    /// For results of up to `largest_chunk`.
    pub(super) fn new(largest_chunk: ChunkSize) -> Self {
        let longest = HEADER_LEN + largest_chunk.octets();
        Self {
            longest,
            multicast: (0..=u8::MAX).map(|_| None).collect(),
            waiting: Vec::with_capacity(1 << 8),
            unicast: Run::new(longest),
        }
    }

    /// Takes what an aggregator answered to `member`. `addresses` are those of all members, by job and rank.
    pub(super) fn take(
        &mut self,
        lane: &Lane<'_>,
        egress: &Egress<'_>,
        member: &Member,
        from: SocketAddr,
        addresses: &[Vec<SocketAddr>],
    ) {
        match egress {
            Egress::Consume | Egress::Ignore | Egress::Reject(_) => {}
            Egress::Unicast(reply) => self.unicast.push(lane, reply, &[from]),
            Egress::Multicast(reply) => {
                let job = usize::from(member.job.0);
                let longest = self.longest;
                let run = self.multicast[job].get_or_insert_with(|| Run::new(longest));
                if run.len == 0 {
                    self.waiting.push(member.job);
                }
                run.push(lane, reply, &addresses[job]);
            }
        }
    }

    /// Sends all that waits.
    pub(super) fn flush(&mut self, lane: &Lane<'_>) {
        self.unicast.flush(lane);
        for job in self.waiting.drain(..) {
            if let Some(run) = &mut self.multicast[usize::from(job.0)] {
                run.flush(lane);
            }
        }
    }
}

/// Equal datagrams, one behind the other, that go to the same addresses.
#[derive(Debug)]
struct Run {
    to: Vec<SocketAddr>,
    segment: usize,
    octets: Box<[u8]>,
    len: usize,
}

impl Run {
    fn new(longest: usize) -> Self {
        debug_assert!(longest <= MAX_DATAGRAM_LEN);
        Self { to: Vec::new(), segment: 0, octets: vec![0; BATCH * longest].into(), len: 0 }
    }

    /// Writes one more result; sends the run first if it cannot join it.
    fn push(&mut self, lane: &Lane<'_>, reply: &Reply<'_>, to: &[SocketAddr]) {
        let segment = reply.datagram_len();
        let full = self.octets.len() - self.len < segment || self.len >= BATCH * self.segment;
        if segment != self.segment || full || self.to != to {
            self.flush(lane);
            self.segment = segment;
            self.to.clear();
            self.to.extend_from_slice(to);
        }
        self.len += reply.emit(&mut self.octets[self.len..]);
    }

    fn flush(&mut self, lane: &Lane<'_>) {
        // Without addresses the transport would look for a peer.
        if self.len > 0 && !self.to.is_empty() {
            lane.account(lane.transport.send_run(&self.to, self.segment, &self.octets[..self.len]));
        }
        self.len = 0;
    }
}
