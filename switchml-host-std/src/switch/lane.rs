//! One lane of the switch: its port, its slots, and who may use them.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mio::Waker;
use switchml_proto::aggregator::{Aggregator, InstallError, Port, Session};
use switchml_proto::{JobId, LaneId, Rank};

use crate::transport::{Sent, Transport};

/// Job numbers, the index of tables by job.
const JOBS: usize = 1 << 8;

/// What all threads may see of a lane. Only the lane's thread receives from its transport.
#[derive(Debug)]
pub(super) struct Lane<'s> {
    pub(super) id: LaneId,
    pub(super) transport: &'s Transport,
    /// Ends the sleep of the lane's thread.
    pub(super) waker: Arc<Waker>,
    slots: Mutex<Slots<'s>>,
    dropped: AtomicU64,
    too_long: AtomicU64,
    unheard: AtomicU64,
}

impl<'s> Lane<'s> {
    pub(super) fn new(
        id: LaneId,
        transport: &'s Transport,
        waker: Arc<Waker>,
        aggregator: Aggregator<'s>,
    ) -> Self {
        let slots = Slots { aggregator, ports: HashMap::new(), addresses: vec![Vec::new(); JOBS] };
        Self {
            id,
            transport,
            waker,
            slots: Mutex::new(slots),
            dropped: AtomicU64::new(0),
            too_long: AtomicU64::new(0),
            unheard: AtomicU64::new(0),
        }
    }

    /// The slots and their tables. Whoever holds them must not ask for the coordinator.
    pub(super) fn slots(&self) -> MutexGuard<'_, Slots<'s>> {
        // A thread that panicked ends the whole switch; until it has, the others may as well go on.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what was not sent.
    pub(super) fn account(&self, sent: Sent) {
        // Most often there is nothing to count, and then the counters' cache line is left alone.
        if sent.dropped > 0 {
            self.dropped.fetch_add(sent.dropped as u64, Ordering::Relaxed);
        }
        if sent.too_long > 0 {
            self.too_long.fetch_add(sent.too_long as u64, Ordering::Relaxed);
        }
    }

    /// Counts datagrams of strangers that nobody looked at.
    pub(super) fn count_unheard(&self, datagrams: u64) {
        if datagrams > 0 {
            self.unheard.fetch_add(datagrams, Ordering::Relaxed);
        }
    }

    /// Datagrams of strangers that nobody looked at.
    pub(super) fn unheard(&self) -> u64 {
        self.unheard.load(Ordering::Relaxed)
    }

    /// Datagrams that were not sent: because buffers were full or the system refused, and because they were longer
    /// than their path carries.
    pub(super) fn unsent(&self) -> (u64, u64) {
        (self.dropped.load(Ordering::Relaxed), self.too_long.load(Ordering::Relaxed))
    }
}

/// The aggregator of a lane, and the addresses of those who may use it (W-10).
#[derive(Debug)]
pub(super) struct Slots<'s> {
    pub(super) aggregator: Aggregator<'s>,
    pub(super) ports: HashMap<SocketAddr, Member>,
    /// By job number, then by rank.
    pub(super) addresses: Vec<Vec<SocketAddr>>,
}

/// Who has an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) job: JobId,
    pub(super) rank: Rank,
    pub(super) port: Port,
}

impl Slots<'_> {
    /// Makes the entries of a session and of its `members`, of which there is one for each rank.
    ///
    /// # Errors
    /// What is in the way; nothing is changed then.
    pub(super) fn install(
        &mut self,
        session: &Session,
        members: impl Iterator<Item = (Rank, SocketAddr)>,
    ) -> Result<(), InstallError> {
        self.aggregator.install(session)?;
        let mut members: Vec<_> = members.collect();
        members.sort_unstable_by_key(|&(rank, _)| rank);
        for &(rank, address) in &members {
            let bound = match self.ports.contains_key(&address) {
                // An address is one member's (W-10).
                true => Err(InstallError::RankBound),
                false => self.aggregator.bind(session.job, rank),
            };
            match bound {
                Ok(port) => self.ports.insert(address, Member { job: session.job, rank, port }),
                Err(error) => {
                    self.remove(session.job);
                    return Err(error);
                }
            };
        }
        self.addresses[usize::from(session.job.0)] =
            members.into_iter().map(|(_, address)| address).collect();
        Ok(())
    }

    /// Removes a session: first its members' addresses, so that none of their packets comes through any more, then
    /// its slots (C-3).
    pub(super) fn remove(&mut self, job: JobId) {
        self.ports.retain(|_, member| member.job != job);
        self.addresses[usize::from(job.0)].clear();
        self.aggregator.remove(job);
    }
}
