#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]
extern crate std;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::{Member, MemberConfig, PhaseStatus};
use super::ghosts::Ghosts;
use super::secret::COOKIE_LIFE;
use super::storage::{Census, Job, Stage};
use super::*;
use crate::ids::*;
use crate::wire::JobName;

fn job(base: u16, window: u16) -> JobEntry {
    let window = Window::new(window.into()).unwrap();
    JobEntry(Some(Job {
        name: JobName::new("job").unwrap(),
        run: 0,
        job: JobId(0),
        session: SessionId(0),
        world_size: WorldSize::new(1).unwrap(),
        lanes: LaneCount::new(1).unwrap(),
        layout: LaneLayout::new(base, window, ChunkSize::MIN).unwrap(),
        initial_seq: Seq(0),
        created: Instant::ZERO,
        stage: Stage::Ready,
        joined: WorkerSet::EMPTY,
        left: WorkerSet::EMPTY,
        next_look: Instant::ZERO,
        census: Census::NONE,
    }))
}

proptest! {
    /// Against a bitmap of the pool: the lowest place, or the largest power of two that fits somewhere.
    #[test]
    fn c2_slots_are_taken_first_fit(
        slots in 1..300u16,
        steps in prop::collection::vec((0..8u32, any::<bool>(), any::<prop::sample::Index>()), 1..40),
    ) {
        let mut jobs = vec![JobEntry::EMPTY; 20];
        let mut taken = vec![false; slots.into()];
        for (log, leaves, which) in steps {
            if leaves {
                if let Some(Job { layout, .. }) = jobs[which.index(20)].0.take() {
                    taken[layout.base().into()..][..layout.window().get().into()].fill(false);
                }
                continue;
            }
            let window = 1usize << log;
            let fits = |size: usize| taken.windows(size).position(|slots| !slots.contains(&true));
            let expected = match fits(window) {
                Some(base) => Ok(base as u16),
                None => Err((0..14).map(|log| 1usize << log).filter(|&size| fits(size).is_some()).max().unwrap_or(0) as u32),
            };
            let storage = CoordinatorStorage { jobs: &mut jobs, members: &mut [], ports: &mut [] };
            prop_assert_eq!(storage.free_slots(slots, Window::new(window).unwrap()), expected);
            if let (Ok(base), Some(entry)) = (expected, jobs.iter_mut().find(|entry| entry.0.is_none())) {
                *entry = job(base, window as u16);
                taken[base.into()..][..window].fill(true);
            }
        }
    }
}

#[test]
fn c1_a_cookie_is_bound_to_address_lane_nonce_and_time() {
    let secret = Secret::new(&[3; 32]);
    let now = Instant::ZERO + Duration::from_secs(1001);
    let from = |ip: IpAddr, port| SocketAddr::new(ip, port);
    let v4: IpAddr = Ipv4Addr::LOCALHOST.into();
    let v6: IpAddr = Ipv6Addr::LOCALHOST.into();
    let lane = |lane| LaneId::new(lane).unwrap();
    let cookie = secret.cookie(now, from(v4, 1), lane(0), Nonce(1));
    assert!(secret.is_valid(cookie, now, from(v4, 1), lane(0), Nonce(1)));
    assert!(!secret.is_valid(cookie, now, from(v4, 2), lane(0), Nonce(1)));
    assert!(!secret.is_valid(cookie, now, from(v6, 1), lane(0), Nonce(1)));
    assert!(!secret.is_valid(cookie, now, from(v4, 1), lane(1), Nonce(1)));
    assert!(!secret.is_valid(cookie, now, from(v4, 1), lane(0), Nonce(2)));
    assert!(!secret.is_valid(0, now, from(v4, 1), lane(0), Nonce(1)));
    assert!(!Secret::new(&[4; 32]).is_valid(cookie, now, from(v4, 1), lane(0), Nonce(1)));
    let at = |seconds| now + Duration::from_secs(seconds);
    assert!(secret.is_valid(cookie, at(8), from(v4, 1), lane(0), Nonce(1)), "the next epoch");
    assert!(!secret.is_valid(cookie, now + COOKIE_LIFE, from(v4, 1), lane(0), Nonce(1)));
    assert!(!secret.is_valid(cookie, at(8 << 40), from(v4, 1), lane(0), Nonce(1)));
}

#[test]
fn c2_draws_do_not_repeat() {
    let mut secret = Secret::new(&[3; 32]);
    let drawn: BTreeSet<_> = (0..1000).map(|_| secret.draw()).collect();
    assert_eq!(drawn.len(), 1000);
}

#[test]
fn w3_every_number_is_drawn_but_those_that_rest_or_are_in_use() {
    let (mut numbers, mut secret) = (JobNumbers::new(), Secret::new(&[3; 32]));
    let now = Instant::ZERO + Duration::from_secs(10);
    let mut order = Vec::new();
    while let Some(number) = numbers.draw(now, &mut secret, [JobId(7)].into_iter()) {
        order.push(number);
        numbers.rest(number, now);
    }
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 255);
    assert!(!order.contains(&JobId(7)));
    assert!(!order.is_sorted(), "at random");
    let almost = now + (crate::MSL - Duration::from_nanos(1));
    assert_eq!(numbers.draw(almost, &mut secret, [JobId(7)].into_iter()), None);
    assert!(numbers.draw(now + crate::MSL, &mut secret, [JobId(7)].into_iter()).is_some());
}

#[test]
fn c2_ended_processes_are_remembered_as_long_as_their_cookies_last() {
    let mut ghosts = Ghosts::default();
    for nonce in 0..300 {
        ghosts.remember(Nonce(nonce), Instant::ZERO);
    }
    assert!(!ghosts.contains(Nonce(43), Instant::ZERO), "the oldest of more than 256");
    assert!(ghosts.contains(Nonce(44), Instant::ZERO));
    assert!(ghosts.contains(Nonce(299), Instant::ZERO + COOKIE_LIFE));
    assert!(!ghosts.contains(Nonce(299), Instant::ZERO + COOKIE_LIFE + Duration::from_nanos(1)));
}

struct NoPlane;

impl DataPlane for NoPlane {
    fn install(&mut self, _: &SessionPlan<'_>) -> Result<(), InstallRefused> {
        Ok(())
    }
    fn remove(&mut self, _: JobId) {}
    fn phase(&mut self, _: JobId, _: LaneId, _: Seq) -> PhaseStatus {
        PhaseStatus::Unknown
    }
    fn missing(&mut self, _: JobId) -> WorkerSet {
        WorkerSet::EMPTY
    }
    fn largest_datagram(&mut self, _: SocketAddr) -> Option<usize> {
        None
    }
}

#[test]
fn c1_only_who_has_echoed_a_cookie_is_a_member_to_send_to() {
    let (mut jobs, mut members, mut ports) =
        ([JobEntry::EMPTY], [MemberEntry::EMPTY; 2], [PortEntry::EMPTY; 2]);
    let storage = CoordinatorStorage { jobs: &mut jobs, members: &mut members, ports: &mut ports };
    let config = CoordinatorConfig::new(128, LaneCount::new(1).unwrap(), [1; 32]);
    let mut coordinator = Coordinator::new(config, storage, Instant::ZERO).unwrap();
    let config =
        MemberConfig::new(JobName::new("job").unwrap(), WorldSize::new(1).unwrap(), Rank::ZERO).unwrap();
    let mut member = Member::new(config, Nonce(5), Instant::ZERO).unwrap();
    let address = SocketAddr::from(([10, 0, 0, 7], 4000));
    let mut buf = [0; 2048];
    let mut told = Vec::new();
    while member.session().is_none() {
        let now = member.poll_timeout().unwrap();
        member.handle_timeout(now);
        while let Some(transmit) = member.poll_transmit(now, &mut buf) {
            coordinator.handle_datagram(now, transmit.lane, address, &buf[..transmit.len], &mut NoPlane);
        }
        while let Some(due) = coordinator.poll_datagram(now) {
            assert_eq!(due.to, address);
            let len = due.datagram.emit(&mut buf);
            told.push((due.audience, len));
            let _heard = member.handle_datagram(now, due.lane, &buf[..len]);
        }
    }
    // The challenge, and the welcome, which is as long as a data packet.
    let challenge = told[0].1;
    assert!(challenge <= crate::wire::MIN_JOIN_LEN);
    assert_eq!(told, [(Audience::Stranger, challenge), (Audience::Member, 1034)]);
}
