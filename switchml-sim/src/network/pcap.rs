//! Datagrams, written to a file that Wireshark and tshark open.

use core::fmt;
use core::time::Duration;
use std::borrow::Cow;
use std::io::Write;

use etherparse::PacketBuilder;
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use switchml_proto::Instant;
use switchml_proto::wire::DEFAULT_PORT_BASE;

use super::{Checksum, Datagram, Fault, Party, Sink};

/// A capture of all datagrams as they are sent, in the format pcapng. What the network does to one stands in its comment.
///
/// Rank r has the address 10.0.1.r and port 40000 + lane; the aggregator 10.0.0.1 and its default ports, a stranger
/// 10.0.2.1.
pub struct Capture<W: Write> {
    writer: PcapNgWriter<W>,
    /// The first error: afterwards nothing is written.
    error: Option<CaptureError>,
}

/// The capture is not complete.
#[derive(Debug)]
pub struct CaptureError(String);

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the capture is not complete: {}", self.0)
    }
}

impl core::error::Error for CaptureError {}

impl<W: Write> Capture<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// [`CaptureError`] if `writer` takes nothing.
    pub fn new(writer: W) -> Result<Self, CaptureError> {
        let mut writer = PcapNgWriter::new(writer).map_err(|error| CaptureError(error.to_string()))?;
        let nanoseconds = InterfaceDescriptionOption::IfTsResol(9);
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0xffff,
            options: vec![nanoseconds],
        };
        writer.write_block(&interface.into_block()).map_err(|error| CaptureError(error.to_string()))?;
        Ok(Self { writer, error: None })
    }

    /// Ends the capture, and gives the writer back.
    ///
    /// # Errors
    /// [`CaptureError`] if something could not be written.
    pub fn finish(self) -> Result<W, CaptureError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.writer.into_inner()),
        }
    }

    fn write(&mut self, at: Instant, frame: Vec<u8>, comment: Option<String>) -> Result<(), CaptureError> {
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(at.as_nanos()),
            original_len: frame.len() as u32, // a UDP datagram has less than 2^16 octets
            data: Cow::Owned(frame),
            options: comment
                .map(|comment| EnhancedPacketOption::Comment(comment.into()))
                .into_iter()
                .collect(),
        };
        self.writer.write_block(&block.into_block()).map_err(|error| CaptureError(error.to_string()))?;
        Ok(())
    }
}

impl<W: Write> Sink for Capture<W> {
    fn datagram(&mut self, at: Instant, from: Party, to: Party, datagram: &Datagram, fate: &[Fault]) {
        if self.error.is_some() {
            return;
        }
        let comment =
            (!fate.is_empty()).then(|| fate.iter().map(Fault::to_string).collect::<Vec<_>>().join(", "));
        let written = frame(from, to, datagram).and_then(|frame| self.write(at, frame, comment));
        self.error = written.err();
    }
}

impl<W: Write> fmt::Debug for Capture<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("error", &self.error).finish_non_exhaustive()
    }
}

fn frame(from: Party, to: Party, datagram: &Datagram) -> Result<Vec<u8>, CaptureError> {
    let [(source, source_port), (destination, destination_port)] = [from, to].map(address);
    let builder = PacketBuilder::ethernet2(mac(source), mac(destination))
        .ipv4(source, destination, 64)
        .udp(source_port, destination_port);
    let mut frame = Vec::with_capacity(builder.size(datagram.len()));
    builder.write(&mut frame, &datagram.octets).map_err(|error| CaptureError(error.to_string()))?;
    if datagram.checksum == Checksum::Wrong {
        const CHECKSUM: usize = 14 + 20 + 6; // the builder has written a whole UDP header
        frame[CHECKSUM] ^= 0xff;
    }
    Ok(frame)
}

fn address(party: Party) -> ([u8; 4], u16) {
    // Lanes are at most 16, ranks at most 64.
    match party {
        Party::Worker { rank, lane } => ([10, 0, 1, rank as u8], 40_000 + lane as u16),
        Party::Aggregator { lane } => ([10, 0, 0, 1], DEFAULT_PORT_BASE + lane as u16),
        Party::Stranger => ([10, 0, 2, 1], 40_000),
    }
}

/// A locally administered address.
fn mac(ip: [u8; 4]) -> [u8; 6] {
    let [a, b, c, d] = ip;
    [2, 0, a, b, c, d]
}
