use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    lanes: LaneOptions,
    #[command(flatten)]
    faults: FaultOptions,
}

#[test]
fn the_defaults_are_those_of_the_protocol() {
    let Program { lanes, faults } = Program::parse_from(["program"]);
    assert_eq!((lanes.chunk, lanes.window), (ChunkSize::DEFAULT, Window::DEFAULT));
    assert_eq!(lanes.lanes.get(), 1);
    assert!(faults.faults().expect("none is out of range").is_none());
}

#[test]
fn times_are_finite_and_not_zero() {
    assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
    for refused in ["0", "-1", "nan", "inf", "1e9", "", "5s"] {
        assert!(seconds(refused).is_err(), "{refused}");
    }
}
