use super::*;

#[test]
fn a2_a_fresh_slot_accepts_its_first_packet_only() {
    for initial_seq in [0, 8, 0_u32.wrapping_sub(8)] {
        let session = session(7, 2, 3, 4, initial_seq);
        for distance in 0..64 {
            with_aggregator(|aggregator| {
                let ports = join(aggregator, &session);
                let seq = Seq(initial_seq).minus(32).plus(distance).0;
                let egress = aggregator.handle_datagram(Some(ports[0]), &full(&session, seq, 1));
                if (32..36).contains(&distance) {
                    assert!(matches!(egress, Egress::Consume), "seq {seq}");
                } else {
                    assert!(matches!(egress, Egress::Reject(Reject::Stale)), "seq {seq}");
                }
            });
        }
    }
}

#[test]
fn install_refuses_what_does_not_fit() {
    with_aggregator(|aggregator| {
        let refused = |aggregator: &mut Aggregator<'_>, session: &Session| {
            let before = state(aggregator);
            let error = aggregator.install(session).unwrap_err();
            assert!(state(aggregator) == before);
            error
        };
        aggregator.install(&session(1, 2, 2, 2, 0)).unwrap();
        assert_eq!(refused(aggregator, &session(1, 2, 4, 2, 0)), InstallError::JobInstalled);
        assert_eq!(refused(aggregator, &session(2, 2, 4, 2, 2)), InstallError::InitialSeq);
        assert_eq!(refused(aggregator, &session(2, 2, 4, 2, 1)), InstallError::InitialSeq);
        assert_eq!(refused(aggregator, &session(2, 2, 5, 4, 0)), InstallError::BeyondPool { slots: 8 });
        assert_eq!(
            refused(aggregator, &session(2, 2, Window::MAX as u16 - 1, 1, 0)),
            InstallError::BeyondPool { slots: 8 }
        );
        for (base, window) in [(0, 4), (1, 2), (2, 1), (2, 2), (3, 1), (3, 4), (0, 8)] {
            assert_eq!(
                refused(aggregator, &session(2, 2, base, window, 0)),
                InstallError::Overlap { job: JobId(1) }
            );
        }
        let largest = aggregator.largest_chunk();
        let layout = LaneLayout::new(4, Window::new(2).unwrap(), ChunkSize::DEFAULT).unwrap();
        let large = Session { layout, ..session(2, 2, 4, 2, 0) };
        assert_eq!(refused(aggregator, &large), InstallError::ChunkTooLarge { largest });
        aggregator.install(&session(2, 2, 4, 4, 0)).unwrap();
        assert_eq!(refused(aggregator, &session(3, 2, 0, 2, 0)), InstallError::NoJobEntry);
    });
}

#[test]
fn bind_refuses_what_does_not_fit() {
    with_aggregator(|aggregator| {
        assert_eq!(aggregator.bind(JobId(1), rank(0)), Err(InstallError::UnknownJob));
        aggregator.install(&session(1, 2, 0, 2, 0)).unwrap();
        assert_eq!(aggregator.bind(JobId(1), rank(2)), Err(InstallError::Rank));
        let port = aggregator.bind(JobId(1), rank(1)).unwrap();
        assert_eq!(port.index(), 0);
        assert_eq!(aggregator.bind(JobId(1), rank(1)), Err(InstallError::RankBound));
        aggregator.install(&session(2, 64, 2, 2, 0)).unwrap();
        for r in 0..5 {
            aggregator.bind(JobId(2), rank(r)).unwrap();
        }
        assert_eq!(aggregator.bind(JobId(1), rank(0)), Err(InstallError::NoPortEntry));
    });
}

#[test]
fn c3_a_removed_session_leaves_nothing_behind() {
    with_aggregator(|aggregator| {
        let (old, other) = (session(1, 2, 2, 2, 0), session(2, 1, 4, 2, 0));
        let ports = join(aggregator, &old);
        let other_port = join(aggregator, &other)[0];
        for seq in 0..3 {
            for port in &ports {
                let _ = aggregator.handle_datagram(Some(*port), &full(&old, seq, 1));
            }
        }
        let _ = aggregator.handle_datagram(Some(other_port), &full(&other, 0, 5));
        aggregator.remove(JobId(9));
        aggregator.remove(old.job);
        assert_eq!(aggregator.counters(ports[0]), None);
        assert_eq!(aggregator.dump(old.job).count(), 0);
        assert!(aggregator.pool.lane(old.layout).iter().all(|phase| *phase == Phase::EMPTY));
        let egress = aggregator.handle_datagram(Some(ports[0]), &full(&old, 2, 1));
        assert!(matches!(egress, Egress::Reject(Reject::UnknownSource)));
        // The other job still has its result.
        let egress = aggregator.handle_datagram(Some(other_port), &full(&other, 0, 5));
        assert!(matches!(egress, Egress::Unicast(_)));

        // The same job number, slots and ports again, further on: old packets find no phase.
        let new = Session { initial_seq: Seq(64), ..old };
        let ports = join(aggregator, &new);
        assert!(aggregator.dump(new.job).all(|view| view.status == PhaseStatus::Unknown));
        for seq in (0..64).chain(66..128) {
            let egress = aggregator.handle_datagram(Some(ports[0]), &full(&old, seq, 1));
            assert!(matches!(egress, Egress::Reject(Reject::Stale)), "seq {seq}");
        }
        assert_eq!(aggregator.counters(ports[1]), Some(&Counters::ZERO));
        for port in &ports {
            if let Egress::Multicast(reply) = aggregator.handle_datagram(Some(*port), &full(&new, 64, 8)) {
                assert_eq!(result(&reply).1, Some(16));
                return;
            }
        }
        panic!("not complete");
    });
}

#[test]
fn c4_status_says_where_a_phase_stands_and_who_is_missing() {
    with_aggregator(|aggregator| {
        let session = session(1, 3, 1, 2, 0);
        let ports = join(aggregator, &session);
        assert_eq!(aggregator.missing(session.job), WorkerSet::EMPTY);
        for (seq, ranks) in [(0, &[0, 1, 2][..]), (1, &[2]), (2, &[0, 1])] {
            for &rank in ranks {
                let _ = aggregator.handle_datagram(Some(ports[rank]), &full(&session, seq, 1));
            }
        }
        let phase = |seq| aggregator.phase(session.job, Seq(seq));
        assert_eq!(phase(0), PhaseStatus::Complete);
        assert_eq!(phase(1), PhaseStatus::Open { seen: set(&[2]) });
        assert_eq!(phase(2), PhaseStatus::Open { seen: set(&[0, 1]) });
        for seq in [3, 4, u32::MAX] {
            assert_eq!(phase(seq), PhaseStatus::Unknown);
        }
        assert_eq!(aggregator.phase(JobId(2), Seq(0)), PhaseStatus::Unknown);
        assert_eq!(aggregator.missing(session.job), set(&[0, 1, 2]));
        assert_eq!(aggregator.missing(JobId(2)), WorkerSet::EMPTY);

        let views: Vec<_> =
            aggregator.dump(session.job).map(|v| (v.slot, v.version, v.seq, v.status)).collect();
        assert_eq!(
            views,
            [
                (1, Version::Zero, Seq(0), PhaseStatus::Complete),
                (1, Version::One, Seq(2), PhaseStatus::Open { seen: set(&[0, 1]) }),
                (2, Version::Zero, Seq(1), PhaseStatus::Open { seen: set(&[2]) }),
                (2, Version::One, Seq(u32::MAX), PhaseStatus::Unknown),
            ]
        );
    });
}

#[test]
fn too_few_elements_make_no_aggregator() {
    let (mut phases, mut elements) = ([Phase::EMPTY; 4], [0; 4 * K - 1]);
    let storage = Storage { phases: &mut phases, elements: &mut elements, jobs: &mut [], ports: &mut [] };
    let error = Aggregator::new(storage, ChunkSize::MIN, Kernels::PORTABLE).unwrap_err();
    assert_eq!(error, StorageError::Elements { needed: 4 * K, got: 4 * K - 1 });
    assert_eq!(Storage::elements(usize::MAX, ChunkSize::MAX), usize::MAX);
}

#[cfg(feature = "snapshot")]
#[test]
fn a_resumed_aggregator_goes_on_where_the_other_one_left_its_memory() {
    let session = session(7, 2, 3, 4, 0);
    let mut phases = [Phase::EMPTY; Storage::phases(8)];
    let mut elements = [0; Storage::elements(8, ChunkSize::MIN)];
    let (mut jobs, mut members) = ([Job::EMPTY; 1], [PortEntry::EMPTY; 2]);
    let storage =
        Storage { phases: &mut phases, elements: &mut elements, jobs: &mut jobs, ports: &mut members };
    let mut first = Aggregator::new(storage, ChunkSize::MIN, Kernels::PORTABLE).unwrap();
    let ports = join(&mut first, &session);
    assert!(matches!(first.handle_datagram(Some(ports[0]), &full(&session, 0, 20)), Egress::Consume));

    for value in [1, 2] {
        let (mut phases, mut elements) = (phases, elements);
        let (mut jobs, mut members) = (jobs, members);
        let storage =
            Storage { phases: &mut phases, elements: &mut elements, jobs: &mut jobs, ports: &mut members };
        let mut copy = Aggregator::resume(storage, ChunkSize::MIN, Kernels::PORTABLE).unwrap();
        let Egress::Multicast(reply) = copy.handle_datagram(Some(ports[1]), &full(&session, 0, value)) else {
            panic!("the phase was not complete")
        };
        assert_eq!(result(&reply).1, Some(20 + value));
        assert_eq!(copy.counters(ports[0]).unwrap().consumed, 1);
    }
}

#[test]
fn a6_a_result_is_given_again_while_its_phase_is_complete_and_there() {
    with_aggregator(|aggregator| {
        let session = session(7, 2, 2, 4, 16);
        let ports = join(aggregator, &session);
        let again = |aggregator: &Aggregator<'_>, seq| {
            let reply = aggregator.result(JobId(7), Seq(seq), rank(1))?;
            assert_eq!((reply.rank(), reply.job()), (rank(1), JobId(7)));
            Some(result(&reply))
        };
        assert_eq!(again(aggregator, 16), None, "nothing has come");
        let _consumed = aggregator.handle_datagram(Some(ports[0]), &full(&session, 16, 3));
        assert_eq!(again(aggregator, 16), None, "rank 1 is missing");
        let Egress::Multicast(reply) = aggregator.handle_datagram(Some(ports[1]), &full(&session, 16, 4))
        else {
            panic!("the phase is complete")
        };
        let told = result(&reply);
        assert_eq!(told.1, Some(7));
        assert_eq!(again(aggregator, 16), Some(told));
        assert_eq!(again(aggregator, 17), None);
        assert_eq!(again(aggregator, 24), None, "the phase after the next has its slot and version");
        assert!(aggregator.result(JobId(8), Seq(16), rank(1)).is_none());
        for seq in [20, 24] {
            for port in &ports {
                let _egress = aggregator.handle_datagram(Some(*port), &full(&session, seq, 1));
            }
        }
        assert_eq!(again(aggregator, 16), None, "its buffer holds another");
    });
}
