//! What the threads of a running switch share.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mio::Waker;
use switchml_proto::control::{Coordinator, CoordinatorEvent};
use switchml_proto::wire::Class;
use switchml_proto::{Instant, LaneId};

use super::SwitchError;
use super::handle::Shared;
use super::lane::Lane;
use super::plane::Plane;
use super::snapshot::Snapshot;
use crate::clock::Clock;

/// What the threads of a running switch share.
pub(super) struct Running<'r, 's> {
    pub(super) lanes: &'r [Lane<'s>],
    control: Mutex<Control<'s>>,
    clock: Clock,
    shared: &'r Shared,
    on_event: &'r (dyn Fn(CoordinatorEvent) + Send + Sync),
    metrics_waker: Option<Arc<Waker>>,
    done: AtomicBool,
}

/// The coordinator, and what belongs to it.
struct Control<'s> {
    coordinator: Coordinator<'s>,
    /// Where its messages are written.
    buffer: Box<[u8]>,
    /// Until when lane 0's thread sleeps if nothing comes; for ever if `None`.
    sleeps_until: Option<Instant>,
    stopping: bool,
}

impl<'r, 's> Running<'r, 's> {
    pub(super) fn new(
        lanes: &'r [Lane<'s>],
        coordinator: Coordinator<'s>,
        clock: Clock,
        shared: &'r Shared,
        on_event: &'r (dyn Fn(CoordinatorEvent) + Send + Sync),
        metrics_waker: Option<Arc<Waker>>,
    ) -> Self {
        let buffer = vec![0; coordinator.transmit_capacity()].into();
        let control = Control { coordinator, buffer, sleeps_until: None, stopping: false };
        let (control, done) = (Mutex::new(control), AtomicBool::new(false));
        Self { lanes, control, clock, shared, on_event, metrics_waker, done }
    }

    /// Hands the coordinator a datagram that came to `lane` and is no member's data packet.
    pub(super) fn hear(&self, lane: LaneId, from: SocketAddr, datagram: &[u8]) {
        let now = self.clock.now();
        let mut control = self.control();
        match Class::of(datagram) {
            Class::Data => control.coordinator.handle_stray_data(now, lane, from, datagram),
            Class::Control => {
                let mut plane = Plane { lanes: self.lanes };
                // The coordinator counts what it heard.
                let _heard = control.coordinator.handle_datagram(now, lane, from, datagram, &mut plane);
            }
        }
        drop(self.carry_out(control, now));
    }

    /// Lets the coordinator's time pass, and does what other threads ask for; called by lane 0's thread before it
    /// sleeps. Returns how long it may; for ever if `None`.
    pub(super) fn tend(&self) -> Option<Duration> {
        let now = self.clock.now();
        let mut control = self.control();
        let mut plane = Plane { lanes: self.lanes };
        if self.shared.is_stopped() && !control.stopping {
            control.stopping = true;
            control.coordinator.shutdown(now, &mut plane);
        }
        if control.coordinator.poll_timeout().is_some_and(|timeout| timeout <= now) {
            control.coordinator.handle_timeout(now, &mut plane);
        }
        control = self.carry_out(control, now);
        if control.stopping && control.coordinator.sessions(now).next().is_none() {
            self.finish();
        }
        control.sleeps_until = control.coordinator.poll_timeout();
        let sleep = control.sleeps_until.map(|timeout| self.clock.until(timeout));
        drop(control);
        for request in self.shared.requests() {
            // Whoever asked may have given up.
            let _ = request.send(self.snapshot());
        }
        sleep
    }

    /// What there is to see of the switch now.
    pub(super) fn snapshot(&self) -> Snapshot {
        let now = self.clock.now();
        let control = self.control();
        Snapshot::take(&control.coordinator, self.lanes, now)
    }

    /// Sends what the coordinator has to send, and tells what it has to tell, the latter without holding it.
    fn carry_out<'a>(
        &'a self,
        mut control: MutexGuard<'a, Control<'s>>,
        now: Instant,
    ) -> MutexGuard<'a, Control<'s>> {
        let Control { coordinator, buffer, sleeps_until, .. } = &mut *control;
        while let Some(transmit) = coordinator.poll_transmit(now, buffer) {
            // The coordinator names lanes that it was configured with.
            if let Some(lane) = self.lanes.get(transmit.lane.index()) {
                lane.account(lane.transport.send_to(Some(transmit.to), &buffer[..transmit.len]));
            }
        }
        let mut events = Vec::new();
        while let Some(event) = coordinator.poll_event() {
            events.push(event);
        }
        if coordinator.poll_timeout().is_some_and(|next| sleeps_until.is_none_or(|until| next < until)) {
            // Lane 0's thread looks again how long it may sleep. A waker fails only if the system does.
            let _ = self.lanes[0].waker.wake();
        }
        if events.is_empty() {
            return control;
        }
        drop(control);
        events.into_iter().for_each(self.on_event);
        self.control()
    }

    fn control(&self) -> MutexGuard<'_, Control<'s>> {
        // A thread that panicked ends the whole switch; until it has, the others may as well go on.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all threads are to end.
    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Makes all threads end.
    pub(super) fn finish(&self) {
        self.done.store(true, Ordering::Release);
        for waker in self.lanes.iter().map(|lane| &lane.waker).chain(&self.metrics_waker) {
            // A waker fails only if the system does.
            let _ = waker.wake();
        }
    }

    /// Passes `outcome` on; makes all threads end if it is an error.
    pub(super) fn or_finish<T>(&self, outcome: io::Result<T>) -> Result<T, SwitchError> {
        outcome.map_err(|error| {
            self.finish();
            SwitchError::System(error)
        })
    }
}

/// Makes all threads end when one does, also if it panics.
pub(super) struct Leaver<'r, 's>(pub(super) &'r Running<'r, 's>);

impl Drop for Leaver<'_, '_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}
