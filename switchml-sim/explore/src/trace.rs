//! A schedule in words.

use switchml_proto::wire::{Packet, PayloadSize};

use crate::aggregate::Aggregate;
use crate::member::Input;
use crate::model::{Action, Exploration, Happening, Machines, State};
use crate::packets::{Packets, members};

/// A line for each step of a path, and one for what is wrong at its end.
pub(crate) fn lines<A: Aggregate>(
    exploration: &Exploration<A>,
    path: &[(State, Option<Action>)],
) -> Vec<String> {
    let machines = &*exploration.machines();
    let mut lines = Vec::new();
    for pair in path.windows(2) {
        if let [(before, Some(action)), (after, _)] = pair {
            lines.push(line(machines, action.happening, before, after));
        }
    }
    lines
}

fn line<A>(machines: &Machines<A>, happening: Happening, before: &State, after: &State) -> String {
    let happened = match happening {
        Happening::Worker { rank, input: Input::Start } => format!("rank {rank} starts its next collective"),
        Happening::Worker { rank, input: Input::Send } => format!("rank {rank} sends"),
        Happening::Worker { rank, input: Input::Timeout } => format!("rank {rank}'s timers run out"),
        Happening::Worker { rank, input: Input::Flight(packets) } => {
            format!("rank {rank} may have {packets} in flight")
        }
        Happening::Worker { input: Input::Arrival(result), .. } => {
            let rank = machines.results.get(result).rank;
            format!("result {} arrives at rank {rank}", name(&machines.results, result))
        }
        Happening::AtAggregator { request } => {
            let rank = machines.requests.get(request).rank;
            format!("packet {} of rank {rank} arrives at the aggregator", name(&machines.requests, request))
        }
    };
    let sent = members(after.requests & !before.requests)
        .map(|request| format!("sends packet {}", name(&machines.requests, request)));
    let answered = members(after.results & !before.results).map(|result| {
        format!("answers rank {} with {}", machines.results.get(result).rank, name(&machines.results, result))
    });
    let wrong = after.fault.map(|fault| format!("AGAINST {fault}"));
    [happened].into_iter().chain(sent).chain(answered).chain(wrong).collect::<Vec<_>>().join("; ")
}

/// The packet's number, and its symbols.
fn name(packets: &Packets, index: usize) -> String {
    let packet = packets.get(index);
    let number = packet.number;
    match Packet::parse(&packet.datagram) {
        Ok(parsed) => {
            let symbol = |index: usize| {
                let octets = parsed.elements().get(4 * index..4 * index + 4)?;
                Some(i32::from_be_bytes(octets.try_into().ok()?))
            };
            let exponent = parsed.header().exponent;
            match (parsed.header().size, symbol(0), symbol(1)) {
                (PayloadSize::Elements(_), Some(counts), Some(chunks)) if exponent == -128 => {
                    format!("{number} [{counts:#08x}, {chunks:#08x}]")
                }
                (PayloadSize::Elements(_), Some(counts), Some(chunks)) => {
                    format!("{number} [{counts:#x}, {chunks:#x}; exponent {exponent}]")
                }
                _ => format!("{number} [exponent {exponent}]"),
            }
        }
        Err(error) => format!("{number} [{error}]"),
    }
}
