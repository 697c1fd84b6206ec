//! The network: every packet that was ever sent, and may still arrive, again and again.

use std::collections::HashMap;

/// A set of packets, by number; each of them was sent, and may arrive at any time.
pub(crate) type Set = u128;

/// Most packets of one direction that a set can tell apart.
const MOST: usize = Set::BITS as usize;

/// The packets of one direction that any state has, numbered as they are found.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    packets: Vec<Packet>,
    numbers: HashMap<(usize, Vec<u8>), usize>,
}

/// One packet, from or to a rank.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) rank: usize,
    /// Counted from the first of the session.
    pub(crate) number: u32,
    pub(crate) datagram: Vec<u8>,
    /// Those of the same rank and number that say something else.
    pub(crate) contradicts: Set,
}

impl Packets {
    /// The set of this packet alone.
    pub(crate) fn intern(&mut self, rank: usize, number: u32, datagram: &[u8]) -> Result<Set, TooMany> {
        if let Some(index) = self.numbers.get(&(rank, datagram.to_vec())) {
            return Ok(1 << index);
        }
        let index = self.packets.len();
        if index == MOST {
            return Err(TooMany);
        }
        let mut contradicts = 0;
        for (other, packet) in self.packets.iter_mut().enumerate() {
            if (packet.rank, packet.number) == (rank, number) {
                packet.contradicts |= 1 << index;
                contradicts |= 1 << other;
            }
        }
        self.packets.push(Packet { rank, number, datagram: datagram.to_vec(), contradicts });
        self.numbers.insert((rank, datagram.to_vec()), index);
        Ok(1 << index)
    }

    pub(crate) fn get(&self, index: usize) -> &Packet {
        &self.packets[index]
    }
}

/// More different packets than machines that keep the protocol could send.
#[derive(Debug)]
pub(crate) struct TooMany;

/// The numbers in a set, from the lowest.
pub(crate) fn members(set: Set) -> impl Iterator<Item = usize> {
    core::iter::successors(Some(set), |rest| Some(rest & rest.wrapping_sub(1)))
        .take_while(|rest| *rest != 0)
        .map(|rest| rest.trailing_zeros() as usize)
}
