//! Packets on their way out: where their elements come from, and where they lie until they are sent.

use core::ops::Range;
use std::collections::VecDeque;

use switchml_proto::worker::{ChunkSource, CollectiveId, Fidelity};

use super::super::share::Share;
use super::Open;
use crate::transport::BATCH;

/// The share of an open collective.
pub(super) fn share(open: &mut VecDeque<Open>, id: CollectiveId) -> &mut dyn Share {
    let open = open.iter_mut().find(|open| open.id == id);
    &mut *open.expect("a worker speaks of collectives that it has started and not ended").share
}

/// Where packets get their elements from.
pub(super) struct Tensors<'o>(pub(super) &'o mut VecDeque<Open>);

impl ChunkSource for Tensors<'_> {
    fn exponent(&mut self, collective: CollectiveId, range: Range<u64>) -> i8 {
        share(self.0, collective).exponent(range)
    }

    fn encode(
        &mut self,
        collective: CollectiveId,
        range: Range<u64>,
        exponent: i8,
        wire: &mut [u8],
    ) -> Fidelity {
        share(self.0, collective).encode(range, exponent, wire)
    }

    fn encode_and_scan(
        &mut self,
        collective: CollectiveId,
        range: Range<u64>,
        exponent: i8,
        wire: &mut [u8],
        ahead: Range<u64>,
    ) -> i8 {
        share(self.0, collective).encode_and_scan(range, exponent, wire, ahead)
    }
}

/// Equal datagrams on their way out, one behind the other.
pub(super) struct OutgoingRun {
    octets: Vec<u8>,
    segment: usize,
    len: usize,
}

impl OutgoingRun {
    /// Room for datagrams of up to `longest` octets.
    pub(super) fn new(longest: usize) -> Self {
        Self { octets: vec![0; BATCH * longest], segment: 0, len: 0 }
    }

    /// Whether a datagram of `len` octets can go with those that are here.
    pub(super) fn takes(&self, len: usize) -> bool {
        self.len == 0 || (len == self.segment && self.len < BATCH * len)
    }

    /// Room for the next datagram, of `len` octets.
    pub(super) fn next(&mut self, len: usize) -> &mut [u8] {
        self.segment = len;
        let start = self.len;
        self.len += len;
        &mut self.octets[start..self.len]
    }

    /// What is here, and how long each datagram is. Afterwards it is empty.
    pub(super) fn take(&mut self) -> Option<(usize, &[u8])> {
        let len = core::mem::take(&mut self.len);
        (len > 0).then(|| (self.segment, &self.octets[..len]))
    }
}
