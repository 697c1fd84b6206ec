//! The lanes' ports, one behind the other (W-9).

use core::net::SocketAddr;
use std::io;

use super::{SwitchConfig, SwitchError};
use crate::transport::{Options, Transport};

/// How often free ports in a row are looked for before that is given up.
const SEARCHES: usize = 64;

/// Opens the port of each lane.
pub(super) fn bind(config: &SwitchConfig) -> Result<Vec<Transport>, SwitchError> {
    if config.port_base != 0 {
        return bind_from(config, config.port_base);
    }
    for _ in 0..SEARCHES {
        let first = bind_one(config, 0, 0)?;
        let port = first.local_addr().port();
        // The system chose the first one; it is opened again with those behind it.
        drop(first);
        match bind_from(config, port) {
            Err(SwitchError::Listen { source, .. }) if source.kind() == io::ErrorKind::AddrInUse => {}
            Err(SwitchError::PortsOutOfRange { .. }) => {}
            outcome => return outcome,
        }
    }
    Err(SwitchError::NoFreePorts { lanes: config.lanes })
}

fn bind_from(config: &SwitchConfig, port_base: u16) -> Result<Vec<Transport>, SwitchError> {
    let lanes = config.lanes;
    if port_base.checked_add(u16::from(lanes.get()) - 1).is_none() {
        return Err(SwitchError::PortsOutOfRange { port_base, lanes });
    }
    (0..lanes.get()).map(|lane| bind_one(config, port_base, lane)).collect()
}

fn bind_one(config: &SwitchConfig, port_base: u16, lane: u8) -> Result<Transport, SwitchError> {
    let address = SocketAddr::new(config.listen, port_base + u16::from(lane));
    let options = Options { calls: config.calls, faults: config.faults.map(|faults| (faults, lane.into())) };
    Transport::bind(address, &options).map_err(|source| SwitchError::Listen { address, source })
}
