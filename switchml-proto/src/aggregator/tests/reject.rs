use super::*;

#[test]
fn w1_another_kind() {
    rejected_for(Reject::Malformed(DataError::Kind { kind: 2 }), |session| {
        let mut datagram = full(session, 17, 3);
        datagram[0] = 0x20 | datagram[0] & 0x0f;
        vec![datagram]
    });
}

#[test]
fn w1_w5_a_reserved_bit() {
    rejected_for(Reject::Malformed(DataError::Reserved), |session| {
        let (mut first, mut second) = (full(session, 17, 3), full(session, 17, 3));
        first[0] |= 0x08;
        second[6] |= 0x40;
        vec![first, second]
    });
}

#[test]
fn w8_no_whole_header() {
    rejected_for(Reject::Malformed(DataError::TooShort { got: 9 }), |session| {
        vec![full(session, 17, 3)[..9].to_vec()]
    });
    rejected_for(Reject::Malformed(DataError::TooShort { got: 0 }), |_| vec![vec![]]);
}

#[test]
fn w8_an_octet_less_or_more_than_the_size_says() {
    for got in [137, 139] {
        rejected_for(Reject::Malformed(DataError::Length { expected: 138, got }), |session| {
            let mut datagram = full(session, 17, 3);
            datagram.resize(got, 0);
            vec![datagram]
        });
    }
}

#[test]
fn w3_another_job() {
    rejected_for(Reject::ForeignJob, |session| vec![full(&Session { job: JobId(8), ..*session }, 17, 3)]);
}

#[test]
fn w5_a_slot_outside_the_lane_or_not_of_the_seq() {
    rejected_for(Reject::Slot, |session| {
        let at = |slot: u8| {
            let mut datagram = full(session, 17, 3);
            datagram[7] = slot;
            datagram
        };
        let mut last = full(session, 17, 3);
        (last[6], last[7]) = (0x3f, 0xff);
        vec![at(1), at(2), at(4), at(6), last]
    });
}

#[test]
fn w5_a_version_not_of_the_seq() {
    rejected_for(Reject::Version, |session| {
        let mut datagram = full(session, 17, 3);
        datagram[6] ^= 0x80;
        vec![datagram]
    });
}

#[test]
fn a1_a_size_neither_the_jobs_nor_none() {
    rejected_for(Reject::Size, |session| {
        [64, 128, 2048]
            .map(|elements| {
                let chunk = ChunkSize::from_elements(elements).unwrap();
                let header = header(session, 17, PayloadSize::Elements(chunk));
                let mut datagram = vec![0; header.datagram_len()];
                header.emit(&mut datagram);
                datagram
            })
            .to_vec()
    });
}

#[test]
fn w7_a_digest_that_no_worker_sends() {
    rejected_for(Reject::Digest, |session| {
        [0, -1, -128].map(|digest| exponent_only(session, 17, 0, digest)).to_vec()
    });
}

#[test]
fn a2_the_seqs_of_a_fresh_slot_are_no_phases() {
    // Slot 2 of the lane is untouched: its versions have seq 16 + 2 - 8 and 16 + 2 - 4.
    rejected_for(Reject::Stale, |session| vec![full(session, 10, 3), full(session, 14, 3)]);
}

#[test]
fn a3_m1_a_seq_of_no_phase_in_the_slot_nor_of_its_next() {
    // Slot 0 holds phases 16 and 20, so it takes 24 next.
    rejected_for(Reject::Stale, |session| {
        [0, 8, 12, 28, 32, 1 << 31].map(|seq| full(session, seq, 3)).to_vec()
    });
}

#[test]
fn w10_a_source_that_has_not_joined() {
    with_aggregator(|aggregator| {
        let session = session(7, 2, 2, 4, 16);
        join(aggregator, &session);
        let before = state(aggregator);
        for from in [None, Some(Port(2)), Some(Port(5)), Some(Port(6)), Some(Port(u16::MAX))] {
            let egress = aggregator.handle_datagram(from, &full(&session, 16, 3));
            assert!(matches!(egress, Egress::Reject(Reject::UnknownSource)));
        }
        assert!(state(aggregator) == before);
        assert_eq!(aggregator.unknown_source(), 5);
    });
}
