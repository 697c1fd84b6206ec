//! An aggregator of one lane with its memory on the heap, driven by datagrams.

use switchml_proto::aggregator::{
    Aggregator, Egress, InstallError, Job, Kernels, Phase, Port, PortEntry, Session, Storage,
};
use switchml_proto::wire::{Header, PayloadSize};
use switchml_proto::{ChunkSize, JobId, LaneLayout, Rank, Seq, Window, WorldSize};
use switchml_sim::oracle::{Answer, Verdict};

/// Lends an aggregator the memory for `slots` slots of `largest_chunk` and two jobs of any size.
pub(crate) fn with_aggregator<R>(
    slots: usize,
    largest_chunk: ChunkSize,
    run: impl FnOnce(&mut Aggregator<'_>) -> R,
) -> R {
    let mut phases = vec![Phase::EMPTY; Storage::phases(slots)];
    let mut elements = vec![0; Storage::elements(slots, largest_chunk)];
    let mut jobs = [Job::EMPTY; 2];
    let mut ports = [PortEntry::EMPTY; 2 * WorldSize::MAX];
    let storage =
        Storage { phases: &mut phases, elements: &mut elements, jobs: &mut jobs, ports: &mut ports };
    run(&mut Aggregator::new(storage, largest_chunk, Kernels::PORTABLE).unwrap())
}

/// A session of `world_size` workers in the slots from `base`.
pub(crate) fn session(
    job: u8,
    world_size: usize,
    base: u16,
    window: usize,
    k: usize,
    initial_seq: u32,
) -> Session {
    let chunk = ChunkSize::from_elements(k).unwrap();
    Session {
        job: JobId(job),
        world_size: WorldSize::new(world_size).unwrap(),
        layout: LaneLayout::new(base, Window::new(window).unwrap(), chunk).unwrap(),
        initial_seq: Seq(initial_seq),
    }
}

/// Installs a session and binds all its ranks; port r is that of rank r.
pub(crate) fn join(aggregator: &mut Aggregator<'_>, session: &Session) -> Result<Vec<Port>, InstallError> {
    aggregator.install(session)?;
    session.world_size.ranks().map(|rank: Rank| aggregator.bind(session.job, rank)).collect()
}

/// Hands a datagram in from the port of `rank`.
pub(crate) fn deliver(
    aggregator: &mut Aggregator<'_>,
    ports: &[Port],
    rank: usize,
    datagram: &[u8],
) -> Answer {
    let (verdict, reply) = match aggregator.handle_datagram(Some(ports[rank]), datagram) {
        Egress::Consume => (Verdict::Consume, None),
        Egress::Ignore => (Verdict::Ignore, None),
        Egress::Reject(_) => (Verdict::Reject, None),
        Egress::Unicast(reply) => {
            assert_eq!(reply.rank().index(), rank, "a unicast goes to the one who asked");
            (Verdict::Unicast, Some(reply))
        }
        Egress::Multicast(reply) => (Verdict::Multicast, Some(reply)),
    };
    let reply = reply.map(|reply| {
        let mut buffer = vec![0xaa; switchml_proto::wire::MAX_DATAGRAM_LEN];
        let len = reply.emit(&mut buffer);
        buffer.truncate(len);
        buffer
    });
    Answer { verdict, reply }
}

/// A datagram of a session; without elements an exponent-only packet.
pub(crate) fn datagram(session: &Session, seq: Seq, exponent: i8, digest: i8, elements: &[i32]) -> Vec<u8> {
    let size = match ChunkSize::from_elements(elements.len()) {
        Ok(chunk) => PayloadSize::Elements(chunk),
        Err(_) => PayloadSize::ExponentOnly,
    };
    let header = Header::new(session.job, session.layout, seq, size, exponent, digest);
    let mut datagram = vec![0; header.datagram_len()];
    let octets = elements.iter().flat_map(|element| element.to_be_bytes());
    for (place, octet) in header.emit(&mut datagram).iter_mut().zip(octets) {
        *place = octet;
    }
    datagram
}
